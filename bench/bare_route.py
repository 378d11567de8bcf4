"""The ceiling over HTTP: a bare Starlette route that decodes the same body and answers the same size."""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from flowfabric.wire.create import SubmitBody

_decode = msgspec.json.Decoder(SubmitBody).decode
_ANSWER = {
    "execution_id": "{fp:0}:00000000-0000-4000-8000-000000000000",
    "public_state": "waiting",
    "duplicate": False,
}


async def submit(request: Request) -> Response:
    """Decode the body and answer; store nothing."""
    _decode(await request.body())
    return Response(msgspec.json.encode(_ANSWER), 201, media_type="application/json")


app = Starlette(routes=[Route("/v1/submit", submit, methods=["POST"])])

if __name__ == "__main__":
    uvicorn.run(
        app, port=int(sys.argv[1]), log_level="warning", loop="uvloop", http="httptools", lifespan="off"
    )
