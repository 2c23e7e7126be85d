"""Questions over HTTP: of which kind they are, and what consent is asked for, whole."""

from __future__ import annotations

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
