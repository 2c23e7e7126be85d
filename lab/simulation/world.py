"""One simulated world: processes, store and bank under one seed, and what is seen to go wrong."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, Literal

from lab.simulation.bank import Bank, Made, What
from lab.simulation.plans import EPOCHS, WRITES, Drafter, effects_of
from lab.simulation.process import Process
from lab.simulation.store import NOBODY, Request, SharedStore
from lab.simulation.timeline import Timeline, TimelineClock
from lab.simulation.twists import again, no_question, other_payee, unguarded
from plansmith import Plan, Plansmith, Run
from plansmith.errors import PlansmithError
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.ids import call_key
from plansmith.plan.limits import BudgetLimits
from plansmith.ports import Call, Claim

_PARAMETERS = {"type": "object", "properties": {"tag": {"type": "string"}}}
# A process that was stopped for longer than this makes sure of its claims before it calls.
STOPPED_S = 1.0


class BrokenPromiseError(AssertionError):
    """Something happened that no seed may bring about."""


async def _take_in(smith: Plansmith, text: str) -> None:
    await smith.templates.take_in(text)


class World:
    """What outlives every process, and sees all of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.timeline = Timeline(rng)
        self.outside = self.timeline.new_loop("outside")
        self.outside.set_exception_handler(lambda *_: None)
        self.clock = TimelineClock(self.timeline)
        self.store = SharedStore(self.timeline, rng)
        self.store.watch = self._watch
        self.store.server.before_delete = self.view
        self.bank = Bank(self, rng)
        self.calm = False
        self.trace: list[tuple[Any, ...]] = []
        self.broken: list[str] = []
        self.processes: list[Process] = []
        self.by_name: dict[str, Process] = {}
        self.chains: dict[str, str] = {}
        self.approved: set[tuple[str, str]] = set()
        # Calls that a person declared not to be made although they were still on their way.
        self.excused: set[What] = set()
        # Which process made a run.
        self.makers: dict[str, Process] = {}
        self.takeovers: dict[str, list[tuple[float, str, bool]]] = {}
        # The journals of deleted runs as they were. In few seeds, so that the others stay as known.
        self.deleted: dict[str, Sequence[e.Event]] = {}
        self.deleter = random.Random(f"delete {seed}")
        self.has_deletes = self.deleter.random() < 0.2
        # In half of the seeds plans are previewed, and what looks find changes now and then.
        self.previewer = random.Random(f"preview {seed}")
        self.has_previews = self.previewer.random() < 0.5
        self.epoch = 0
        self.moved_at: list[datetime] = []
        self._intents: set[tuple[str, str, int]] = set()
        self._claims: dict[str, Claim] = {}
        # Claims of runs that were over: whoever has one only finds that nothing is left to do.
        self._late: set[tuple[str, int]] = set()
        self._views: dict[str, tuple[Run, Sequence[e.Event]]] = {}
        self._ids = 0
        self._choose()

    def _choose(self) -> None:
        rng = self.rng
        self.kind: Literal["schedule", "request", "plan"] = rng.choices(
            ("schedule", "request", "plan"), (1, 1, 8)
        )[0]
        self.has_servers = self.kind == "schedule" or rng.random() < 0.8
        self.machines = rng.choice((("m1",), ("m1", "m2"), ("m1", "m2"), ("m1", "m2")))
        self.lease_s = rng.choice((2.0, 4.0))
        self.width = rng.choice((1, 2, 8))
        self.data: Literal["show", "ask"] = rng.choice(("show", "show", "ask"))
        if self.kind == "schedule":
            self.data = "show"  # nobody is there to be asked
        self.budget = BudgetLimits(steps=rng.choice((None, None, None, 6)))
        self.drafter = Drafter(
            random.Random(rng.random()),
            asks=self.kind != "schedule",
            nests=rng.random() < 0.2,
            refers=self.has_previews and self.kind != "schedule",
        )
        self.plan = self.drafter.plan()
        while self.kind == "schedule" and not effects_of(self.plan, self.templates):
            self.plan = self.drafter.plan()
        self.is_stored = rng.random() < 0.5  # whether templates are in the store, or given

    @property
    def templates(self) -> dict[str, Plan]:
        """The templates as they are now."""
        return self.drafter.templates

    def next_id(self) -> str:
        """Returns ids that are the same each time the seed is played."""
        self._ids += 1
        return f"run-{self._ids:03}"

    def boot(self, *, is_server: bool = False) -> Process:
        """Starts one more process."""
        machine = self.rng.choice(self.machines)
        process = Process(
            self, number=len(self.processes) + 1, machine=machine, is_server=is_server
        )
        self.processes.append(process)
        self.by_name[process.name] = process
        self.note("boot", process.loop.name, is_server)
        if is_server:
            process.serve()
        if not self.calm and self.rng.random() < 0.25:
            process.loop.fate = self.rng.randint(1, 250)
            process.loop.meet = process.kill if self.rng.random() < 0.7 else self._stopper(process)
        return process

    def _stopper(self, process: Process) -> Any:
        def meet() -> None:
            process.stop()
            self.timeline.call_later(self.rng.choice((0.5, 3.0, 9.0, 20.0)), process.wake)

        return meet

    def living(self, *, servers: bool = False) -> list[Process]:
        """Returns the processes that exist, stopped ones too; or the servers among them."""
        return [
            each for each in self.processes if each.is_alive and (each.is_server or not servers)
        ]

    def note(self, *what: Any) -> None:
        """Adds to the trace."""
        self.trace.append((self.timeline.now, *what))

    def move(self) -> None:
        """From now on looks find something else, and tools would do something else."""
        if self.epoch < EPOCHS - 1 and not self.calm:
            self.epoch += 1
            self.moved_at.append(self.clock.now())
            self.note("moved", self.epoch)

    def fail(self, why: str) -> None:
        """Notes that a promise is broken; the seed ends there."""
        self.note("BROKEN", why)
        self.broken.append(why)

    def digest(self) -> str:
        """Returns the hash of all that happened."""
        return hashlib.sha256(repr(self.trace).encode()).hexdigest()

    def chain(self, run: str) -> str:
        """Returns the first of the runs that continue each other.

        The journal tells it too: whoever began the run may have been killed before it knew.
        """
        if run not in self.chains:
            bodies = [event.body for event in self.journals().get(run, ())]
            reused = [each.run for each in bodies if isinstance(each, e.StepReused)]
            return next((self.chain(each) for each in reused if each != run), run)
        return self.chains[run]

    def journals(self) -> Mapping[str, Sequence[e.Event]]:
        """Returns all journals as the store has them."""
        return self.store.server.journals

    def view(self, run: str) -> Run | None:
        """Returns a run as its journal is now."""
        events = self.journals().get(run)
        if not events:
            return None
        known, taken = self._views.get(run, (Run(id=run), ()))
        new = events[len(taken) :]
        self._views[run] = fold(new, known), [*taken, *new]
        return self._views[run][0]

    def value(self, digest: str) -> Any:
        """Returns a stored value."""
        return json.loads(self.store.server.texts[digest])

    def happened(self, made: Made) -> None:
        """An effect took place: it must be approved, and may not be there twice."""
        self.note("effect", made.tool, made.id, made.key)
        if (made.tool, made.id) not in self.approved:
            self.fail(f"{made} was never approved")
        if made.key.split("/", maxsplit=1)[0] in self.deleted and not self.is_known(made):
            self.fail(f"{made} took place, and neither a journal nor a tombstone tells of it")
        if made.what not in self.excused:
            count = sum(each.what == made.what for each in self.bank.made)
            if count > 1:
                self.fail(f"took place {count} times: {made}")

    def is_known(self, made: Made) -> bool:
        """Whether the end of a call stood in the journal when it was deleted, or is a tombstone."""
        keys: dict[str, str] = {}
        told: set[str] = {each["key"] for each in self.store.server.stones}
        for event in self.deleted[made.key.split("/", maxsplit=1)[0]]:
            match event.body:
                case e.StepStarted(step=step, call_mark=mark):
                    keys[step] = call_key(event.run, step, mark)
                case e.StepDone(step=step) | e.StepFailed(step=step, unsure=False):
                    told |= {keys[step]} if step in keys else set()
                case e.StepReset(step=step):  # she said that it had not taken place
                    told |= {keys[step]} if step in keys else set()
                case _:
                    pass
        return made.key in told

    def sent(self, process: Process, tool: str, name: str, call: Call) -> None:
        """A process calls what changes something: the intent must be stored, under a term."""
        self.note("call", process.loop.name, tool, name, call.key, call.attempt)
        if (process.name, call.key, call.attempt) not in self._intents:
            self.fail(f"{process.loop.name} calls {tool} for {call.key} without a stored intent")
            return
        run = call.key.split("/", maxsplit=1)[0]
        now = self.timeline.now
        began, heard = process.heard.get((call.key, call.attempt), (now, now))
        heard = max(heard, process.looked.get((tool, name), heard))
        self._check_previewed(process, tool, name, call)
        for at, owner, by_force in self.takeovers.get(run, ()):
            # The gap that the documents name: by force, within a second of a stopped process.
            gap = by_force and heard - began <= STOPPED_S
            if owner == process.name and at < heard and not gap:
                self.fail(f"{process.loop.name} calls {tool} for {call.key} under an old term")
        if self._claims.get(run, NOBODY).owner != process.name:
            self.excused.add((tool, name, self.chain(run)))

    def _check_previewed(self, process: Process, tool: str, name: str, call: Call) -> None:
        """A change is approved, not left out, and its tool would do what a person saw."""
        run, _, rest = call.key.partition("/")
        step, seen = rest.rpartition("/")[0], self.view(run)
        if seen is None:
            return
        if seen.started_at is None or not seen.approved_plan:
            self.fail(f"{process.loop.name} calls {tool} for {call.key} before the approval")
        permit, own = seen.permits.get(step), seen.steps[step].permit
        mark = permit.answer.get("allow") if permit and isinstance(permit.answer, dict) else None
        touches = dict(seen.previewed.touches) if seen.previewed is not None else {}
        touches |= {each: permit.touches for each, permit in seen.permits.items()}
        touches |= {each: it.permit.touches for each, it in seen.steps.items() if it.permit}
        if any(  # what an approved call has changed is not as it was seen
            {*touches.get(step, ())} & {*others}
            for each, others in touches.items()
            if each != step and each in seen.steps and seen.steps[each].attempts
        ):
            return
        shown = process.shown.get((tool, name))
        if own is None and isinstance(mark, str) and shown not in (mark, ""):
            self.fail(f"{call.key} does something else than was shown, and nobody was asked")

    def heard(self, process: Process, events: Sequence[e.Event], began: float) -> None:
        """A process learns what is stored, and had asked at a time."""
        for event in events:
            if isinstance(event.body, e.StepStarted):
                # The first time counts: another task of the process may read the event again later.
                told = began, self.timeline.now
                key = call_key(event.run, event.body.step, event.body.call_mark)
                process.heard.setdefault((key, event.body.attempt), told)

    def _watch(self, request: Request) -> None:
        """Sees what the store does."""
        failed = type(request.error).__name__ if request.error else ""
        process = self.by_name[request.process]
        if request.name == "append":
            self._see_append(process, request, failed)
        elif request.name in ("claim", "release") and not failed:
            self._see_claim(process, request.args[0])
        elif request.name == "delete_run" and request.result:
            self._see_delete(process, request.args[0])
        else:
            self.note(request.name, process.loop.name, failed)

    def _see_append(self, process: Process, request: Request, failed: str) -> None:
        events: Sequence[e.Event] = request.args[0]
        told = [(each.number, each.body.type, each.hash[:8]) for each in events]
        run = events[0].run if events else ""
        self.note("append", process.loop.name, run, failed, *told)
        term = request.options.get("term", 0)
        if not failed and run and term and self.store.server.claim_now(run).term != term:
            self.fail(f"{process.loop.name} writes to {run} under an old term")
        if not failed and events and events[0].number == 1:
            self.makers[run] = process
        for event in events if not failed else ():
            if isinstance(event.body, e.StepStarted):
                body = event.body
                key = call_key(run, body.step, body.call_mark)
                self._intents.add((process.name, key, body.attempt))
                if body.callee in WRITES and not self.calm:
                    self._strike(process)
            is_look = isinstance(event.body, e.PreviewStarted | e.PreviewMade | e.PlanApproved)
            if is_look and self.has_previews and not self.calm and self.previewer.random() < 0.1:
                self.previewer.choice([process.kill, process.stop])()
                self.timeline.call_later(self.previewer.choice((0.5, 9.0)), process.wake)

    def _see_delete(self, process: Process, run: str) -> None:
        """Sees that a run is gone: no living process may be at it, and no effect is forgotten."""
        self.note("deleted", process.loop.name, run)
        self.deleted[run] = self._views.pop(run)[1]
        claim = self._claims.pop(run, NOBODY)
        owner = None if (run, claim.term) in self._late else self.by_name.get(claim.owner)
        is_alive = owner is not None and owner.is_alive and not owner.loop.is_stopped
        if owner and is_alive and self.store.server.has_lease(owner.name):
            self.fail(f"{process.loop.name} deletes {run}, at which {owner.loop.name} is")
        for made in self.bank.made:
            if made.key.split("/", maxsplit=1)[0] == run and not self.is_known(made):
                self.fail(f"{run} was deleted, and nobody knows of {made}")

    def _strike(self, process: Process) -> None:
        """Now and then, a process is hit between the intent of an effect and the effect."""
        dice = self.rng.random()
        if dice < 0.04:
            process.kill()
        elif dice < 0.12:
            process.stop()
            self.timeline.call_later(self.rng.choice((1.5, 9.0, 20.0)), process.wake)

    def _see_claim(self, process: Process, run: str) -> None:
        """Sees who owns a run now; from a living process it is taken by force only."""
        now = self.store.server.claim_now(run)
        before, self._claims[run] = self._claims.get(run, NOBODY), now
        self.note("claim", process.loop.name, run.strip(), now.owner, now.term)
        if now.owner == process.name and now.term != before.term:  # it begins anew
            seen = self.view(run)
            if seen is not None and seen.status.over:
                self._late.add((run, now.term))
            kept = [each for each in self.takeovers.get(run, ()) if each[1] != process.name]
            self.takeovers[run] = kept
        if not before.owner or before.owner in (now.owner, process.name):
            return
        by_force = run in process.forcing
        self.takeovers.setdefault(run, []).append((self.timeline.now, before.owner, by_force))
        if by_force:
            return
        loser = self.by_name[before.owner]
        is_near = loser.machine == process.machine
        if loser.is_alive and (is_near or self.store.server.has_lease(loser.name)):
            self.fail(f"{process.loop.name} takes {run!r} from {loser.loop.name}, which lives")

    async def save_templates(self) -> None:
        """Keeps the templates in the store, unless they are given to each process."""
        if not self.is_stored or not self.templates:
            return
        process = self.boot()
        process.loop.fate = 0
        for name, plan in sorted(self.templates.items(), reverse=True):
            known = {"name": name, "parameters": _PARAMETERS, "plan": plan.to_json()}
            # Templates in maps in templates go only so deep, and the store may be away.
            with suppress(PlansmithError):
                await process.do(partial(_take_in, text=json.dumps(known)))
        await process.exit()

    async def change_template(self) -> None:
        """Somebody saves a template anew: from now on it does something else."""
        if not self.templates:
            return
        name = self.rng.choice(sorted(self.templates))
        value = json.loads(json.dumps(self.templates[name].to_json()))
        self.rng.choice([other_payee, no_question, unguarded, again])(value, self.rng)
        self.templates[name] = Plan.model_validate(value)
        await self.save_templates()

    def live(self, story: Any) -> None:
        """Plays a story to its end, or until a promise is broken."""
        main = self.outside.create_task(story)
        try:
            self.timeline.run(lambda: main.done() or bool(self.broken))
            if not self.broken:
                main.result()
        finally:
            self._end()

    def _end(self) -> None:
        """Ends all tasks, so that nothing is left for another world to collect."""
        loops = [self.outside, *(each.loop for each in self.processes)]
        for each in self.processes:
            each.connection.is_over = True
            each.is_alive = False
        for loop in loops:
            loop.cancel_all()
        for loop in loops:
            loop.drop()
