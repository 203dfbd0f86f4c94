"""The server on 127.0.0.1: hands out the harness, talks to its pages over one WebSocket each, plans for `getKernel`."""
