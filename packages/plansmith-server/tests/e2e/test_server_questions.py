"""Questions over HTTP: of which kind they are, and what consent is asked for, whole."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from tests.unit.server.house import House, tool_step

LONG = "".join(f"{number:06d}" for number in range(10_000))
ASK = {"id": "q", "kind": "ask", "question": "Plansmith asks: allow mail?", "options": ["allow"]}


async def test_the_values_of_a_consent_are_given_to_their_last_letter(house: House) -> None:
    read = tool_step("read", inputs={"city": LONG})
    mail = tool_step("send", "mail", inputs={"city": "{{read.city}}"})
    run = await house.begin(read, mail)
    await house.approve(run)
    run = await house.until(run["id"], "asking")
    (asked,) = run["questions"]
    assert asked["kind"] == "consent"
    assert "only the first 2,000 of 60,000 characters" in asked["text"]
    path = f"/v1/runs/{run['id']}/questions/{quote(asked['question'], safe='')}"
    whole = await house.get(path)
    told = {"values": {"city": LONG}, "files": None, "seen": "", "would_fail": ""}
    assert whole == asked | told | {"can_change": True}
    answer = {"question": asked["question"], "answer": "allow"}
    await house.post(f"/v1/runs/{run['id']}/answers", answer)
    await house.until(run["id"], "done")
    assert house.tools.calls[-1] == ("mail", {"city": LONG})
    assert (await house.client.get(path)).status_code == 404


async def test_a_question_of_a_plan_is_of_the_plans_kind_whatever_it_says(house: House) -> None:
    run = await house.begin(ASK)
    await house.approve(run)
    run = await house.until(run["id"], "asking")
    (asked,) = run["questions"]
    assert (asked["kind"], asked["step"]) == ("step", "q")
    (item,) = (await house.get("/v1/inbox"))["items"]
    assert item["question"]["kind"] == "step"
    whole = await house.get(f"/v1/runs/{run['id']}/questions/q")
    assert whole["values"] is None
    change = {"question": "q", "change": {"city": "Rome"}}
    refused = await house.client.post(f"/v1/runs/{run['id']}/answers", json=change)
    assert (refused.status_code, "only in the plan" in refused.text) == (409, True)


async def test_a_value_of_one_call_of_many_is_changed(house: House) -> None:
    read = tool_step("read", inputs={"city": "Oslo"})
    send = {"kind": "tool", "id": "one", "tool": "mail", "inputs": {"city": "{{read.city}}"}}
    each = {"id": "all", "kind": "map", "over": ["a", "b"], "each": send}
    run = await house.begin(read, each, tool_step("wait", "slow"))
    await house.approve(run)
    path = f"/v1/runs/{run['id']}"
    await house.tools.began["slow"].wait()
    while len((now := await house.get(path))["questions"]) < 2:
        await house.server_state.smith.store.wait(run["id"], after=now["last"])
    whole = await house.get(f"{path}/questions/{quote('data:all/1?1', safe='')}")
    assert whole["can_change"]
    body: dict[str, Any] = {"question": "data:all/1?1", "change": {"city": 5}}
    refused = await house.client.post(f"{path}/answers", json=body)
    assert (refused.status_code, "city: " in refused.json()["detail"]) == (409, True)
    await house.post(f"{path}/answers", body | {"change": {"city": "Rome"}})
    again = await house.client.post(f"{path}/answers", json=body | {"change": {"city": "Bern"}})
    assert again.status_code == 409
    assert not (await house.get(path))["paused"]
    await house.post(f"{path}/answers", {"question": "data:all/0?1", "answer": "allow"})
    house.tools.gate.set()
    await house.until(run["id"], "done")
    made = [each for each in house.tools.calls if each[0] == "mail"]
    assert sorted(made, key=str) == [("mail", {"city": "Oslo"}), ("mail", {"city": "Rome"})]
