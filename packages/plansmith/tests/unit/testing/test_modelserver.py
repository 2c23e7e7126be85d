from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from plansmith.testing.modelserver import ModelServer, Reply


def post(url: str, body: dict[str, Any], **headers: str) -> tuple[int, dict[str, str], str]:
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"X-Test": "1", **headers}
    )
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, dict(response.headers), response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


def test_an_answer_can_be_had_in_one_piece() -> None:
    answers = Reply("hello", cached_tokens=2), Reply({"a": 1}, tool="t")
    with ModelServer(*answers).in_thread() as url:
        status, headers, body = post(url, {"model": "m", "messages": []})
        called = json.loads(post(url, {})[2])["choices"][0]
    answer = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert answer["model"] == "m"
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "hello"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert called["finish_reason"] == "tool_calls"
    assert called["message"]["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a": 1}'}
