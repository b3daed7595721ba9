"""A load balancer without any affinity: each HTTP request goes to the next gateway that can be connected to.

Owns the listening socket and a thread with its loop. It counts the `initialize` requests that pass, and the DELETEs. Invariant: every
exchange has a connection of its own on both sides, so that nothing but the turn decides where it goes.
"""
import asyncio
import threading

INITIALIZE = b'"method":"initialize"'


class RoundRobin:
    def __init__(self, backends):
        self.backends = list(backends)
        self.initialized, self.deleted, self.served = 0, 0, {port: 0 for port in backends}
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait()

    def _run(self, ready):
        async def listen():
            server = await asyncio.start_server(self._exchange, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self._loop.run_until_complete(listen())
        self._loop.run_forever()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _exchange(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head[:-4].split(b"\r\n")
            names = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines[1:])}
            body = await reader.readexactly(int(names.get(b"content-length", 0)))
            self.deleted += head.startswith(b"DELETE ")
            self.initialized += INITIALIZE in body.replace(b" ", b"")
            kept = [line for line in lines if not line.lower().startswith((b"connection:", b"keep-alive:"))]
            theirs, ours = await self._connect()
            ours.write(b"\r\n".join([*kept, b"connection: close", b"", b""]) + body)
            await self._pass(theirs, reader, writer)
            ours.close()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _connect(self):
        turn, self._turn = self._turn, self._turn + 1
        for after in range(len(self.backends)):
            port = self.backends[(turn + after) % len(self.backends)]
            try:
                pair = await asyncio.open_connection("127.0.0.1", port)
                self.served[port] += 1
                return pair
            except OSError:
                continue
        raise ConnectionError("no gateway can be connected to")

    @staticmethod
    async def _pass(theirs, reader, writer):
        """Until the gateway has said all, or the client leaves."""
        gone = asyncio.ensure_future(reader.read(1))
        first, closes = True, b"\r\nconnection: close\r\n"
        try:
            while True:
                more = asyncio.ensure_future(theirs.read(65536))
                await asyncio.wait((more, gone), return_when=asyncio.FIRST_COMPLETED)
                if not more.done():
                    more.cancel()
                    return
                if not more.result():
                    return
                # So the client opens another connection for what it sends next.
                data = more.result().replace(b"\r\n", closes, 1) if first else more.result()
                first = False
                writer.write(data)
                await writer.drain()
        finally:
            gone.cancel()
