"""A server that answers every request with two bytes: the floor of `service.py`. Prints its port."""

from __future__ import annotations

import asyncio


async def answer_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Read requests and answer them until the client leaves."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = head.lower().split(b"content-length:")[1].split(b"\r\n")[0]
            await reader.readexactly(int(length))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve() -> None:
    """Listen on a free port of this machine."""
    server = await asyncio.start_server(answer_requests, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve())
