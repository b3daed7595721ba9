#!/usr/bin/env python3
"""A second verifier of audit journals, written from docs/audit.md alone: it shares no code with the gateway.

  audit_verifier.py [--public-key HEX]... [--against FILE]... SEGMENT...      (oldest first)

Prints `ok`, or `FILE:LINE: what` (or what alone, where no line is to blame) and exits 1. Standard library only; the
Ed25519 part follows RFC 8032, section 5.1.7.
"""
import argparse
import hashlib
import itertools
import json
import re
import sys

P = 2**255 - 19
Q = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
HASH = re.compile(rb'^(.*),"hash":"([0-9a-f]{64})"\}$', re.S)
HEX = re.compile(r"^[0-9a-f]{64}\Z")
SIGNATURE = re.compile(r"^[0-9A-Fa-f]{128}\Z")
LONE = re.compile("[\ud800-\udfff]")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.S)
MAX_DEPTH = 512


class Bad(Exception):
    """What is wrong with a line, or with the whole."""


# -- Ed25519 -------------------------------------------------------------------------------------------------------

def add(a, b):
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    m, n = (y1 - x1) * (y2 - x2) % P, (y1 + x1) * (y2 + x2) % P
    c, d = 2 * t1 * t2 * D % P, 2 * z1 * z2 % P
    e, f, g, h = n - m, d - c, d + c, n + m
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, point):
    total = (0, 1, 1, 0)
    while n:
        if n & 1:
            total = add(total, point)
        point = add(point, point)
        n >>= 1
    return total


def point(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (x == 0 and sign):
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def confirms(public, message, signature):
    a, r, s = point(public), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= Q:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % Q
    left, right = times(s, BASE), add(r, times(h, a))
    return all((left[n] * right[2] - right[n] * left[2]) % P == 0 for n in (0, 1))


# -- lines ---------------------------------------------------------------------------------------------------------

def unique(pairs):
    if len({LONE.sub("\ufffd", name) for name, _ in pairs}) != len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def whole(text):
    """An integer as this format has them: None for one that is negative or needs more than 64 bits."""
    value = int(text) if text[0] != "-" and len(text) <= 20 else 2**64
    return value if value < 2**64 else None


def no_constant(text):
    raise ValueError(f"{text} is not JSON")


def too_deep(line):
    if line.count(b"{") + line.count(b"[") <= MAX_DEPTH:
        return False
    steps = ({0x7B: 1, 0x5B: 1, 0x7D: -1, 0x5D: -1}.get(byte, 0) for byte in STRING.sub(b"", line))
    return any(depth > MAX_DEPTH for depth in itertools.accumulate(steps))


def read(line):
    """One line without its line feed, checked by itself."""
    match = HASH.match(line)
    if not match:
        raise Bad("does not end in a hash")
    if hashlib.sha256(match[1]).hexdigest() != match[2].decode():
        raise Bad("does not match its hash")
    if too_deep(line):
        raise Bad("no record: nested too deep")
    try:
        record = json.loads(line.decode(), object_pairs_hook=unique, parse_int=whole, parse_constant=no_constant)
        version, kind, boot, seq, lost = record["v"], record["kind"], record["boot"], record["seq"], record.get("lost", 0)
    except (ValueError, KeyError) as why:
        raise Bad(f"no record: {why}") from None
    strings, numbers = [kind, boot, record["time"], record["prev"]], [version, seq, lost]
    strings += [record[name] for name in ("reason", "key", "signature") if record.get(name) is not None]
    numbers += [record["records"]] if "records" in record and record["records"] is not None else []
    if any(type(text) is not str or LONE.search(text) for text in strings) or any(type(n) is not int for n in numbers):
        raise Bad("no record: a member of another type")
    if version != 1:
        raise Bad("another version")
    if (kind == "start") != (seq == 0):
        raise Bad("`start` and seq 0 belong together")
    if not HEX.match(record["prev"]):
        raise Bad("`prev` is no hash")
    return record


def signed(record, keys):
    """Whether a checkpoint is signed, and well if there are keys."""
    if type(record.get("records")) is not int or type(record.get("reason")) is not str:
        raise Bad("a checkpoint without its members")
    name, signature = record.get("key"), record.get("signature")
    if name is None or signature is None:
        return False
    if keys:
        if name not in keys:
            raise Bad("signed with an unknown key")
        told = [record[member] for member in ("boot", "seq", "time", "records", "reason", "prev")]
        message = "".join(f"{part}\n" for part in ["smartgate audit checkpoint v1", *told]).encode()
        if not SIGNATURE.match(signature) or not confirms(keys[name], message, bytes.fromhex(signature)):
            raise Bad("a signature that is not the key's")
    return True


class Journal:
    def __init__(self, keys):
        self.keys, self.last, self.first = keys, None, None
        self.boots, self.hashes, self.covered, self.lines = {}, {}, False, 0

    def take(self, line):
        record = read(line)
        boot, seq = record["boot"], record["seq"]
        if self.last is None:
            self.first = record
            if record["prev"] == "0" * 64 and record["kind"] != "start":
                raise Bad("the very first record is no start")
            self.boots[boot] = [seq, None]
        elif record["prev"] != self.last["hash"]:
            raise Bad("`prev` is not the hash before")
        elif boot == self.last["boot"]:
            if seq != self.last["seq"] + 1 + record.get("lost", 0):
                raise Bad("a gap in seq")
        elif record["kind"] != "start":
            raise Bad("a boot without start")
        if record["kind"] == "start" and self.last is not None:
            if boot in self.boots:
                raise Bad("a boot begins twice")
            self.boots[boot] = [0, None]
        if record["kind"] == "checkpoint":
            is_signed = signed(record, self.keys)
            if self.covered and not is_signed:
                raise Bad("unsigned after signed")
            self.covered = self.covered or (is_signed and bool(self.keys))
        stopped = record["kind"] == "checkpoint" and record["reason"] == "stop"
        self.boots[boot][1] = (seq, stopped)
        self.hashes[boot, seq] = record["hash"]
        self.last = record
        self.lines += 1

    def end(self, kept):
        if self.keys and not self.covered:
            raise Bad("nothing is signed with the given key")
        whole = self.first is None or self.first["prev"] == "0" * 64
        for (boot, seq), (digest, is_checkpoint) in kept.items():
            if (boot, seq) in self.hashes:
                if self.hashes[boot, seq] != digest:
                    raise Bad(f"seq {seq} of boot {boot} was altered")
                continue
            if not whole and (boot < self.first["boot"] if boot not in self.boots else
                              boot == self.first["boot"] and seq < self.boots[boot][0]):
                continue  # older than the oldest line
            if boot not in self.boots:
                raise Bad(f"boot {boot} is not in the journal")
            last, stopped = self.boots[boot][1]
            if seq <= last or stopped or is_checkpoint:
                raise Bad(f"seq {seq} of boot {boot} was taken away or forged")


def kept_lines(paths):
    kept = {}
    for path in paths:
        for line in open(path, encoding="utf-8"):
            record = json.loads(line)
            for spans in record.get("resourceSpans", []):
                for span in (span for scope in spans["scopeSpans"] for span in scope["spans"]):
                    told = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
                    if "smartgate.hash" in told:
                        kept[told["smartgate.boot"], int(told["smartgate.seq"])] = told["smartgate.hash"], False
            if "hash" in record:
                kept[record["boot"], record["seq"]] = record["hash"], record.get("kind") == "checkpoint"
    return kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--public-key", action="append", default=[])
    parser.add_argument("--against", action="append", default=[])
    parser.add_argument("segments", nargs="+")
    options = parser.parse_args()
    keys = {hashlib.sha256(key).hexdigest()[:16]: key for key in map(bytes.fromhex, options.public_key)}
    journal = Journal(keys)
    try:
        for path in options.segments:
            with open(path, "rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        if not line.endswith(b"\n"):
                            raise Bad("torn")
                        journal.take(line[:-1])
                    except Bad as why:
                        raise Bad(f"{path}:{number}: {why}") from None
        journal.end(kept_lines(options.against))
    except Bad as why:
        print(why)
        return 1
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
