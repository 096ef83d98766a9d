"""An OpenAI-compatible chat server over a real model: `python judge_server.py --model FOLDER` prints its URL.

It serves the tiny random model of conftest.py where no folder is given, through Strop's own engine. What the model says
is returned as it is; where the request asks for a JSON schema, the model writes into that schema as servers with guided
decoding do: whatever is free in it (texts, choices) follows from the tokens the model samples at temperature 0.

`POST /behave` sets what goes wrong: `plan`, a list of behaviours for the next requests, and `always`, one for all
others. A behaviour is any of `status`, `retry_after`, `delay` (s), `text` (instead of the model's), `cut` (characters
kept of the text), `choice` (taken wherever the schema allows it), `prefer` (the text of the answer that wins),
`cut_body` (bytes kept of the HTTP body), `garbage` (share of replies that are none), `refuse` (text that a request must
not hold, else 400). `GET /seen` tells all requests since, with their times and how many ran at once.
"""

import argparse
import asyncio
import json
import random
import tempfile
import time
from pathlib import Path

import uvicorn
from conftest import make_model
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from strop.config.schema import EngineConfig
from strop.core.types import Message, SamplingParams
from strop.engines.loading import load_engine
from strop.engines.renderer import ChatRenderer

GARBAGE = ("I would say 7 out of 10.", "", "{", '{"verdict": "none"}', "[1, 2]", '{"scores": {"item_1": 10}}')


class JudgeServer:
    """The routes and what they remember."""

    def __init__(self, engine, renderer, max_tokens):
        self.engine, self.renderer, self.max_tokens = engine, renderer, max_tokens
        self.forget({})

    def forget(self, wanted):
        self.plan, self.always = list(wanted.get("plan", [])), wanted.get("always", {})
        self.seen, self.running = [], 0
        self.chance = random.Random(0)

    async def behave(self, request: Request) -> Response:
        self.forget(await request.json())
        return JSONResponse({})

    async def look(self, request: Request) -> Response:
        return JSONResponse(self.seen)

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        behaviour = self.plan.pop(0) if self.plan else self.always
        self.running += 1
        entry = {
            "at": time.monotonic(),
            "running": self.running,
            "body": body,
            "key": request.headers.get("authorization"),
        }
        self.seen.append(entry)
        try:
            response = await self.answer(body, behaviour)
            entry["status"] = response.status_code
            return response
        finally:
            self.running -= 1

    async def answer(self, body, behaviour):
        await asyncio.sleep(behaviour.get("delay", 0.0))
        said = json.dumps(body["messages"])
        status = 400 if "refuse" in behaviour and behaviour["refuse"] in said else behaviour.get("status", 200)
        if status != 200:
            headers = {"Retry-After": behaviour["retry_after"]} if "retry_after" in behaviour else {}
            return JSONResponse({"error": {"message": f"told to answer {status}"}}, status, headers)
        text, usage = await self.written(body, wish_of(behaviour, body))
        if self.chance.random() < behaviour.get("garbage", 0.0):
            text = self.chance.choice(GARBAGE)
        text = behaviour.get("text", text)[: behaviour.get("cut")]
        message = {"role": "assistant", "content": text}
        reply = {"object": "chat.completion", "choices": [{"index": 0, "message": message}], "usage": usage}
        return Response(json.dumps(reply)[: behaviour.get("cut_body")], media_type="application/json")

    async def written(self, body, wish):
        """What the model says to the messages, and the tokens that took."""
        ids = self.renderer.start([Message(role=m["role"], content=m["content"]) for m in body["messages"]])
        wanted = min(body.get("max_tokens", self.max_tokens), self.max_tokens)
        completion = await self.engine.sample(ids, SamplingParams(max_tokens=wanted, temperature=0.0))
        tokens = completion.token_ids.tolist()
        text = self.renderer.parse(completion).content
        wanted = body.get("response_format", {})
        if wanted.get("type") == "json_schema":
            draws = iter(tokens * 100)
            text = json.dumps(fill(wanted["json_schema"]["schema"], text, draws, wish))
        return text, {"prompt_tokens": len(ids), "completion_tokens": len(tokens)}


def wish_of(behaviour, body):
    """What a partial judge chooses where it may."""
    if "prefer" not in behaviour:
        return behaviour.get("choice")
    first = body["messages"][1]["content"].partition("<<<END FIRST ANSWER")[0].partition("<<<BEGIN FIRST ANSWER")[2]
    return "first" if behaviour["prefer"] in first else "second"


def fill(schema, text, draws, wish):
    """A value of `schema` whose free parts follow from what the model said."""
    if schema["type"] == "object":
        return {name: fill(inner, text, draws, wish) for name, inner in schema["properties"].items()}
    if wish in schema.get("enum", ()):
        return wish
    if "enum" in schema:
        return schema["enum"][next(draws) % len(schema["enum"])]
    return text


async def serve(options) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.model or make_model(Path(scratch) / "model", max_position_embeddings=16384)
        renderer = ChatRenderer.load(folder)
        async with load_engine(folder, EngineConfig(threads=1), renderer) as engine:
            judge = JudgeServer(engine, renderer, options.max_tokens)
            app = Starlette(
                routes=[
                    Route("/v1/chat/completions", judge.complete, methods=["POST"]),
                    Route("/behave", judge.behave, methods=["POST"]),
                    Route("/seen", judge.look),
                ]
            )
            server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
            running = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", flush=True)
            await running


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path)
    parser.add_argument("--max-tokens", type=int, default=8)
    asyncio.run(serve(parser.parse_args()))
