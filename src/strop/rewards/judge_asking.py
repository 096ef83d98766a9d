"""How every judge asks: its settings, the cache before it, one repair of a garbled reply, and who is to blame."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Literal

from strop.core.errors import ConfigError, InfraError
from strop.core.types import JSON, Message
from strop.rewards.extract import visible
from strop.rewards.judge_cache import VerdictCache
from strop.rewards.judge_client import ChatClient, Lane, RequestRefused, checked_endpoint, key_in
from strop.rewards.judge_forms import (
    CANARY,
    TEMPLATES,
    Form,
    GarbledVerdict,
    digest,
    messages_of,
    read_verdict,
    repair_of,
)
from strop.rewards.judge_guard import INJECTIONS, OPENERS, injection, is_opener, num_characters

MAX_ROUNDS = 2  # each a fresh mark, a reply, and one repair


class AnswerAtFault(Exception):
    """The endpoint refuses these answers (by number) again and again, and takes a plain one in their place."""

    def __init__(self, numbers: Sequence[int], text: str) -> None:
        super().__init__(text)
        self.numbers = tuple(numbers)


@dataclass(frozen=True, kw_only=True)
class Judge:
    """A model behind an OpenAI-compatible chat `endpoint`, and how it is asked.

    `key_env` names the environment variable that holds the key. `body` is added to every request. `cache_file` keeps
    verdicts for later runs. Answers with fewer than `min_chars` letters and digits, or longer than `max_chars`, score
    0 unasked; `allow` names rules of injected text that do not hold here. `counts` says what was asked and what came.
    """

    endpoint: str
    model: str
    key_env: str | None = None
    response_format: Literal["text", "json_object", "json_schema"] = "text"
    temperature: float = 0.0
    max_reply_tokens: int = 1024
    body: Mapping[str, JSON] = field(default_factory=dict)
    max_concurrency: int = 16
    call_timeout_s: float = 120.0
    max_tries: int = 6
    backoff_s: float = 0.5
    cache_size: int = 65536
    cache_file: str | None = None
    min_chars: int = 1
    max_chars: int = 50_000
    allow: tuple[str, ...] = ()
    show_reference: bool = True
    version: str = field(init=False, compare=False)
    _client: ChatClient = field(init=False, repr=False, compare=False)
    _cache: VerdictCache = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check()
        client = ChatClient(
            self.endpoint,
            key_env=self.key_env,
            max_concurrency=self.max_concurrency,
            call_timeout_s=self.call_timeout_s,
            max_tries=self.max_tries,
            backoff_s=self.backoff_s,
        )
        object.__setattr__(self, "_client", client)
        object.__setattr__(self, "_cache", VerdictCache(self.cache_size, self.cache_file))
        object.__setattr__(self, "version", digest([type(self).__name__, TEMPLATES, _guard(), self.decides()]))

    def __reduce__(self) -> tuple[Any, ...]:
        """Any process can rebuild a judge from its settings; connections, counts and memory are its own."""
        return partial(type(self), **{f.name: getattr(self, f.name) for f in fields(self) if f.init}), ()

    @property
    def counts(self) -> Mapping[str, int]:
        """Requests, retries, failures, garbled replies, cache hits, unasked answers, tokens in and out."""
        return dict(self._client.counts)

    def decides(self) -> list[Any]:
        """The settings that decide a score: another endpoint of the same model, or another cache, does not."""
        asked: list[Any] = [self.model, self.response_format, self.temperature, self.max_reply_tokens, dict(self.body)]
        return [*asked, self.min_chars, self.max_chars, sorted(self.allow), self.show_reference]

    def _check(self) -> None:
        checked_endpoint(self.endpoint)
        if not self.model.strip():
            raise ConfigError("model is empty: name the model that the judge's endpoint serves")
        if self.key_env is not None:
            key_in(self.key_env)
        if self.response_format not in ("text", "json_object", "json_schema"):
            raise ConfigError(f"response_format must be text, json_object or json_schema, got {self.response_format!r}")
        for name in ("max_reply_tokens", "max_concurrency", "call_timeout_s", "max_tries", "cache_size", "max_chars"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be above 0, got {getattr(self, name)!r}")
        for name in ("temperature", "backoff_s", "min_chars"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)!r}")
        unknown = sorted(set(self.allow) - set(INJECTIONS))
        if unknown:
            raise ConfigError(f"allow: no rule is called {unknown[0]!r}; there are {', '.join(INJECTIONS)}")
        file = Path(self.cache_file) if self.cache_file is not None else None
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            raise ConfigError(f"cache_file: {self.cache_file!r} cannot be written: give a file in a folder that exists")

    def unasked(self, prompt: Sequence[Message], texts: Sequence[str]) -> str | None:
        """Why the last of `texts`, all by the policy, scores 0 without a call; None when it is to be judged."""
        reason = self._unasked("\n".join(message.content for message in prompt), texts)
        self._client.counts["unasked"] += reason is not None
        return reason

    def _unasked(self, prompt: str, texts: Sequence[str]) -> str | None:
        answer = visible(texts[-1]) if texts else ""
        if num_characters(answer) < max(1, self.min_chars):
            return "empty" if not num_characters(answer) else f"shorter than {self.min_chars} letters and digits"
        if len(answer) > self.max_chars:
            return f"longer than {self.max_chars} characters"
        if is_opener(answer):
            return "announces an answer and gives none"
        found = (injection(visible(text), prompt, self.allow) for text in reversed(texts))
        spoken = next((reason for reason in found if reason is not None), None)
        return None if spoken is None else f"speaks to the judge, {spoken}"

    async def ask(self, form: Form) -> Mapping[str, Any]:
        """The verdict on `form`. InfraError when none could be had, AnswerAtFault when an answer prevents one."""
        key = digest([self.version, form.content()])
        async with self._client.lane() as lane, lane.lock(key):
            held = self._cache.get(key)
            if held is not None:
                self._client.counts["cache_hits"] += 1
                return held
            try:
                verdict = await self._verdict(lane, form)
            except RequestRefused as refusal:
                verdict = await self._asked_again(lane, form, refusal)
            self._cache.put(key, verdict)
            return verdict

    async def _verdict(self, lane: Lane, form: Form) -> Mapping[str, Any]:
        trouble = ""
        for _ in range(MAX_ROUNDS):
            mark = secrets.token_hex(8)
            messages = messages_of(form, mark)
            for _ in range(2):
                reply = await self._client.complete(lane, self._body(messages, form.shape(mark)))
                try:
                    return read_verdict(form, reply, mark)
                except GarbledVerdict as error:
                    trouble = str(error)
                    self._client.counts["garbled"] += 1
                    messages = [*messages, *repair_of(form, mark, reply, trouble)]
        raise InfraError(f"the judge gave no verdict in {2 * MAX_ROUNDS} replies: {trouble}")

    async def _asked_again(self, lane: Lane, form: Form, refusal: RequestRefused) -> Mapping[str, Any]:
        """A refusal is the answer's fault when it comes twice and a plain answer in its place is taken both times."""
        plain = (CANARY,) * len(form.answers)
        if await self._refuses(lane, form.with_answers(plain)):
            raise refusal
        try:
            return await self._verdict(lane, form)
        except RequestRefused:
            if await self._refuses(lane, form.with_answers(plain)):
                raise
        blamed = []
        for number, answer in enumerate(form.answers):
            alone = (*plain[:number], answer, *plain[number + 1 :])
            if len(plain) == 1 or await self._refuses(lane, form.with_answers(alone)):
                blamed.append(number)
        if not blamed:
            raise refusal
        raise AnswerAtFault(blamed, str(refusal))

    async def _refuses(self, lane: Lane, form: Form) -> bool:
        mark = secrets.token_hex(8)
        try:
            await self._client.complete(lane, self._body(messages_of(form, mark), form.shape(mark)))
        except RequestRefused:
            return True
        return False

    def _body(self, messages: Sequence[Mapping[str, str]], shape: Mapping[str, Any]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "messages": messages, "temperature": self.temperature}
        if "max_completion_tokens" not in self.body:
            body["max_tokens"] = self.max_reply_tokens
        if self.response_format == "json_schema":
            schema = {"name": "verdict", "strict": True, "schema": shape}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif self.response_format == "json_object":
            body["response_format"] = {"type": "json_object"}
        return body | dict(self.body)


def _guard() -> list[str]:
    return [OPENERS.pattern, *(f"{name} {pattern.pattern}" for name, pattern in INJECTIONS.items())]
