from __future__ import annotations

from uuid import UUID

from plansmith.plan.ids import Ids, uuid7


def test_an_id_is_a_version_7_uuid_of_its_time() -> None:
    made = UUID(uuid7(0x0123456789AB, (1 << 74) - 1))
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == 0x0123456789AB


def test_ids_rise_within_one_millisecond_and_when_the_clock_steps_back() -> None:
    times = iter([5, 5, 5, 3, 4, 6] * 2)
    most = (1 << 74) - 2  # the second of a millisecond has no more room
    for ids in (
        Ids(milliseconds=lambda: next(times), randomness=lambda bits: (1 << bits) - 1),
        Ids(milliseconds=lambda: 5, randomness=lambda _: most),
    ):
        made = [ids() for _ in range(6)]
        assert made == sorted(set(made))
