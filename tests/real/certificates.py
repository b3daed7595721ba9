"""Makes a private authority and a loopback server certificate in a folder. Runs in a venv that has `cryptography`.

Usage: certificates.py FOLDER   (writes ca.crt, tls.crt, tls.key)
"""
import datetime
import ipaddress
import pathlib
import sys

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


def name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def builder(subject, issuer, key):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
        .serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + 30 * DAY)
    )


def authority(key):
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    made = builder("smartgate test authority", "smartgate test authority", key)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return made.add_extension(usage, critical=True).add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def server(key, ca_key):
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    made = builder("localhost", "smartgate test authority", key).add_extension(names, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    return made.add_extension(identifier, critical=False).sign(ca_key, hashes.SHA256())


def main(folder):
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "ca.crt").write_bytes(authority(ca_key).public_bytes(pem))
    (folder / "tls.crt").write_bytes(server(key, ca_key).public_bytes(pem))
    (folder / "tls.key").write_bytes(private)


main(pathlib.Path(sys.argv[1]))
