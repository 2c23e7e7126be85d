"""What a crash costs: processes are killed with -9 in the middle of a plan and started again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from lab.bench.runner_figures import Samples
from lab.bench.runner_process import Worker, WorkerFailedError

PATIENCE_S: Final = 120.0
MOMENT_S: Final = 0.05
# Starts `die:NAME` or `recover:NAME` of an engine with a log of its tool at this path.
Begin = Callable[[str, Path], Worker]


class Note(NamedTuple):
    """A line that the tool wrote: when, whether a step started or ended, and which."""

    at: float
    what: str
    step: str


def crash(begin: Begin, folder: Path, *, quick: bool) -> Samples:
    """Some done, some under way, none yet begun: kill, start again, see what runs again.

    What ended in the last moments before the kill counts for nobody: it may not be durable yet.
    """
    samples: Samples = {"again": [], "kept": [], "restart": []}
    for seed in range(2 if quick else 4):
        log = folder / f"fan{seed}.log"
        killed = _killed(begin, f"fan{seed}", log, until=_ended_a_while_ago(8))
        last = time.time() - MOMENT_S
        after = _went_on(begin, f"fan{seed}", log, killed, samples)
        ended = {note.step for note in killed if note.what == "end" and note.at < last}
        again = {note.step for note in after if note.what == "start"}
        samples["again"].append(len(ended & again))
        samples["kept"].append(len(ended))
    return samples


def cold(begin: Begin, folder: Path, *, quick: bool) -> Samples:
    """Milliseconds from the start of a process to its first step, with nothing stored yet."""
    times: list[float] = []
    for number in range(2 if quick else 3):
        log = folder / f"cold{number}.log"
        start = time.time()
        with _process(begin, "die:cold", log) as process:
            process.answer(PATIENCE_S)
        times.append((_notes(log)[0].at - start) * 1000)
    return {"cold": times}


def long_run(begin: Begin, folder: Path, *, quick: bool) -> Samples:
    """A run of 1,000 steps, killed after 900: milliseconds until the next one starts, twice."""
    del quick
    log = folder / "lanes.log"
    samples: Samples = {"restart": []}
    killed = _killed(begin, "lanes", log, until=_count("end", 900))
    with _process(begin, "resume:lanes", log) as process:
        samples |= process.answer(PATIENCE_S)
        killed = _notes(log)
    _went_on(begin, "lanes", log, killed, samples)
    return {"long resume": samples["resume"]}


def open_runs(begin: Begin, folder: Path, *, quick: bool) -> Samples:
    """1,000 runs under way, killed: seconds from the start of a process until all go on."""
    log = folder / "open.log"
    started = _count("start", 1000)
    known = len(_killed(begin, "open", log, until=started))
    times: list[float] = []
    for _ in range(2 if quick else 3):
        start = time.time()
        with _process(begin, "recover:open", log) as process:
            _poll(process, log, partial(_goes_on, started, known))
        notes = _notes(log)
        times.append(notes[-1].at - start)
        known = len(notes)
    return {"open": times}


def _goes_on(is_enough: Callable[[list[Note]], bool], known: int, notes: list[Note]) -> bool:
    return is_enough(notes[known:])


def _went_on(
    begin: Begin, name: str, log: Path, killed: list[Note], samples: Samples
) -> list[Note]:
    start = time.time()
    with _process(begin, f"recover:{name}", log) as process:
        said = process.answer(PATIENCE_S)
    after = _notes(log)[len(killed) :]
    samples["restart"].append((after[0].at - start) * 1000)
    for key, values in said.items():
        samples.setdefault(key, []).extend(values)
    return after


def _killed(
    begin: Begin, name: str, log: Path, *, until: Callable[[list[Note]], bool]
) -> list[Note]:
    with _process(begin, f"die:{name}", log) as process:
        _poll(process, log, until)
    return _notes(log)


@contextmanager
def _process(begin: Begin, scenario: str, log: Path) -> Iterator[Worker]:
    process = begin(scenario, log)
    try:
        yield process
    finally:
        process.kill()


def _poll(process: Worker, log: Path, until: Callable[[list[Note]], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until(_notes(log)):
        if process.is_over or time.monotonic() > deadline:
            raise WorkerFailedError(f"{process.name}: {log.stem}: too early or too late to kill")
        time.sleep(0.002)


def _count(what: str, least: int) -> Callable[[list[Note]], bool]:
    return lambda notes: sum(note.what == what for note in notes) >= least


def _ended_a_while_ago(least: int) -> Callable[[list[Note]], bool]:
    def is_time(notes: list[Note]) -> bool:
        before = time.time() - MOMENT_S
        return sum(note.what == "end" and note.at < before for note in notes) >= least

    return is_time


def _notes(log: Path) -> list[Note]:
    lines = log.read_text().splitlines() if log.exists() else []
    parts = (line.split() for line in lines)
    return [Note(float(part[0]), part[1], part[2]) for part in parts if len(part) == 3]
