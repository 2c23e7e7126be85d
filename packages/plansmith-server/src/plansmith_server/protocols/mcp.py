"""The MCP server: offers plans and runs as tools to other programs."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final, ParamSpec

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import ToolAnnotations
from pydantic import Field
from starlette.routing import BaseRoute

from plansmith import plugins
from plansmith.engine.journal import load_preview
from plansmith.errors import PlanInvalid, PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.plan.problem import Problem
from plansmith.plan.run_options import TeamName
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith_server.bodies import AnyPlanJson, InDialect, PlanBody
from plansmith_server.errors import HttpProblem, problem_view
from plansmith_server.handshake import ABOUT
from plansmith_server.ops.logs import Log
from plansmith_server.ports import Wiring
from plansmith_server.protocols.programs import ProgramAccess, program, program_of
from plansmith_server.routes.conversations import ANSWERED, taken_for
from plansmith_server.routes.plans import check_plan
from plansmith_server.routes.previews import preview_page
from plansmith_server.serve import make_state
from plansmith_server.state import ServerState
from plansmith_server.team.auth import grant_of
from plansmith_server.views import export_plan, parse_plan

# A tenant's; one that nobody uses for half an hour ends.
MAX_SESSIONS: Final = 200
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
# They add a run, and nothing outside changes by them: that takes a plan that a person approved.
_BEGINS: Final = _READS.model_copy(update={"read_only_hint": False, "destructive_hint": False})
_PLANNING: Final = "openmanus_planning"
P = ParamSpec("P")
Ctx = Context[Any, Any]
Run = Annotated[str, Field(description="the id of a run")]
Wait = Annotated[float, Field(description="seconds to wait for it", ge=0, le=60.0)]
ForTeam = Annotated[
    TeamName | None,
    Field(description="the agents that work on it: researchers, or those of a database"),
]
InConversation = Annotated[
    str | None,
    Field(description="the conversation to say it in, by its id; 'new' begins one", max_length=200),
]
Database = Annotated[str, Field(description="for the team data: its name in the settings")]


def make_mcp(state: ServerState) -> MCPServer[Any]:
    """Makes the server with its tools."""
    tools = _PlansmithTools(state)
    reads: list[Any] = [tools.plan_show, tools.plan_validate, tools.run_status, tools.run_result]
    begins: list[Any] = [
        *(tools.plan_create, tools.plan_preview, tools.run_start, tools.run_answer)
    ]
    if _PLANNING in plugins.names("mcp"):
        begins.append(tools.planning)
    made = [Tool.from_function(_with_errors(each), annotations=_READS) for each in reads]
    made += [Tool.from_function(_with_errors(each), annotations=_BEGINS) for each in begins]
    return MCPServer(
        "plansmith", "Plansmith", instructions=ABOUT, version=version("plansmith"), tools=made
    )


def mcp_routes(state: ServerState, base: str) -> tuple[Sequence[BaseRoute], Sequence[Any]]:
    """Returns the routes of `/mcp`, and the resources to keep open."""
    del base
    server = make_mcp(state)
    # The gate has checked host, origin, token and size.
    free = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(transport_security=free, max_sessions=MAX_SESSIONS)
    return app.routes, [server.session_manager.run]


async def run_stdio(wiring: Wiring) -> None:
    """Serves over pipes until the input ends; runs that are open then can be resumed later."""
    log = Log()
    log.capture_libraries()
    state = make_state(wiring, log=log)
    try:
        await make_mcp(state).run_stdio_async()
    finally:
        await state.close()


def _with_errors(tool: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    @functools.wraps(tool)
    async def call(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return await tool(*args, **kwargs)
        except PlansmithError as error:
            raise ToolError(str(error)) from None
        except HttpProblem as problem:
            raise ToolError(problem.detail) from None

    return call


def _client(ctx: Ctx) -> Actor:
    """Returns the caller: named by its token over HTTP, by itself over pipes."""
    request = ctx.request_context.request
    if request is not None:
        return program_of("MCP", grant_of(request.scope))
    params = ctx.request_context.session.client_params
    return program("MCP", params.client_info.name if params else "")


class _PlansmithTools:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._planning: dict[str, Any] = {}

    def _access(self, ctx: Ctx, state: ServerState | None = None) -> ProgramAccess:
        return ProgramAccess(state or self._state, _client(ctx))

    def _team(self, team: TeamName | None, database: str) -> ServerState:
        if (team == "data") != bool(database):
            raise ToolError("the team data needs a database, and nothing else does")
        return self._state.for_team(team, database)

    async def plan_create(
        self,
        ctx: Ctx,
        request: Annotated[str, Field(description="what is wanted, in words", min_length=1)],
        wait_s: Wait = 30.0,
        dialect: InDialect = None,
        team: ForTeam = None,
        database: Database = "",
        conversation: InConversation = None,
    ) -> dict[str, Any]:
        """Make a checked plan for a request. Nothing is run; run_start does that.

        In a conversation the request knows what came before. There it may also answer a question,
        ask for another plan or ask why: `message` says what it was taken for. It approves nothing.
        """
        access = self._access(ctx, self._team(team, database))
        extra: dict[str, Any] = {}
        if conversation is None:
            run_id = await access.create(request, dialect=dialect or "")
        else:
            thread, turn = await access.say(
                request, conversation=conversation, in_team=team is not None, dialect=dialect or ""
            )
            if turn.run is None:
                raise ToolError("the run of this message was removed")
            run_id, extra = turn.run.id, {"message": taken_for(thread, turn)}
        if extra.get("message", {}).get("kind") not in ANSWERED:
            await access.at_rest(run_id, seconds=wait_s)
        return await self.plan_show(ctx, run_id, dialect) | extra

    async def plan_show(
        self,
        ctx: Ctx,
        run: Run,
        dialect: InDialect = None,
        *,
        results: Annotated[bool, Field(description="in a dialect: with results")] = False,
    ) -> dict[str, Any]:
        """Show the plan of a run, with its problems, its estimate and what it changes.

        `preview` has the calls it would make, as far as a preview was made. In a dialect, `lost`
        says what that cannot hold.
        """
        state = await self._state.for_run(run, acts=False)
        view = await state.run_view(run)
        fields = {name: view[name] for name in ("plan", "problems", "estimate", "effects")}
        found = await state.smith.get(run)
        if dialect is not None and found.plan is not None:
            written = export_plan(found.plan, dialect, found if results else None)
            fields |= {"plan": written["plan"], "dialect": dialect, "lost": written["lost"]}
        shown = await load_preview(state.smith.store, found)
        fields["preview"] = shown and preview_page(shown)
        return await self._access(ctx).status(run) | fields

    async def plan_preview(
        self,
        ctx: Ctx,
        run: Run,
        given: Annotated[
            dict[str, Json] | None, Field(description="results to assume for steps that read")
        ] = None,
        wait_s: Wait = 30.0,
    ) -> dict[str, Any]:
        """Run what only reads of a plan that waits for a person, and show what it would change.

        Nothing is changed or approved by it.
        """
        runs = (await self._state.for_run(run)).smith.runs
        await runs.ask_for_preview(run, given=given, by=_client(ctx))
        self._state.background.go_on(run)
        await self._access(ctx).at_rest(run, seconds=wait_s)
        return await self.plan_show(ctx, run)

    async def plan_validate(
        self,
        plan: Annotated[AnyPlanJson, Field(description="a plan as JSON")],
        dialect: InDialect = None,
        team: ForTeam = None,
        database: Database = "",
    ) -> dict[str, Any]:
        """Check a plan against the current tools; nothing is saved."""
        given = PlanBody(plan=plan, dialect=dialect)
        try:
            view, _ = await check_plan(self._team(team, database).smith, given)
        except PlanInvalid as error:
            views = [problem_view(each) for each in error.problems if isinstance(each, Problem)]
            return {"usable": False, "hash": None, "problems": views}
        names = ["hash", "problems", "effects", *(["plan"] if dialect is not None else [])]
        usable = all(each["severity"] != "error" for each in view["problems"])
        return {"usable": usable, **{name: view[name] for name in names}}

    async def run_start(
        self,
        ctx: Ctx,
        run: Annotated[str, Field(description="a run that plan_create made")] = "",
        plan: Annotated[AnyPlanJson | None, Field(description="or a plan as JSON")] = None,
        template: Annotated[str, Field(description="or the name of a template")] = "",
        parameters: Annotated[dict[str, Json] | None, Field(description="of the template")] = None,
        dialect: InDialect = None,
        team: ForTeam = None,
        database: Database = "",
    ) -> dict[str, Any]:
        """Start a run and return its id; a plan that changes anything waits for a person."""
        if plan is None and (dialect or team or database):
            raise ToolError("dialect, team and database go with a plan")
        if plan is not None:
            state = self._team(team, database)
            agents = state.smith.runs.registry.agents()
            found, notes = parse_plan(plan, dialect or "", agents=agents)
            run = await self._access(ctx, state).create(
                plan=found, dialect=dialect or "", notes=notes
            )
        elif template:
            run = await self._access(ctx).use(template, parameters or {})
        elif run:
            await self._access(ctx).start(run)
        else:
            raise ToolError("give a run, a plan or a template")
        return await self._access(ctx).status(run)

    async def run_status(self, ctx: Ctx, run: Run, wait_s: Wait = 0.0) -> dict[str, Any]:
        """Show the status of a run, and its open questions."""
        await self._access(ctx).at_rest(run, seconds=wait_s)
        return await self._access(ctx).status(run)

    async def run_result(self, ctx: Ctx, run: Run, wait_s: Wait = 0.0) -> dict[str, Any]:
        """Return the report of a run and the result of each step."""
        found = await self._access(ctx).at_rest(run, seconds=wait_s)
        status = await self._access(ctx).status(run)
        if not found.status.over:
            return status | {"report": None, "results": None}
        view: dict[str, Any] = await self._state.run_view(run)
        results = {name: step["result"] for name, step in view["steps"].items()}
        report = to_markdown(await load_report(self._state.smith.store, run))
        return status | {"report": report, "results": results}

    async def run_answer(
        self,
        ctx: Ctx,
        run: Run,
        question: Annotated[str, Field(description="its name, as run_status returns it")],
        answer: Annotated[
            Json, Field(description="the answer, in the form that the question asks for")
        ],
    ) -> dict[str, Any]:
        """Answer a question of a run. Only a person can answer approvals and permissions."""
        await self._access(ctx).answer(run, question, answer)
        return await self._access(ctx).status(run)

    async def planning(
        self,
        ctx: Ctx,
        command: Annotated[
            str,
            Field(description="create, update, list, get, set_active, mark_step or delete"),
        ],
        plan_id: str | None = None,
        title: str | None = None,
        steps: list[str] | None = None,
        step_index: int | None = None,
        step_status: str | None = None,
        step_notes: str | None = None,
    ) -> str:
        """Keep a list of steps and mark your progress yourself; it runs nothing."""
        given = dict[str, Any](plan_id=plan_id, title=title, steps=steps, step_index=step_index)
        given |= {"step_status": step_status, "step_notes": step_notes}
        who, state = _client(ctx), self._state
        if who.name not in self._planning:  # each client has its own active plan
            make = plugins.load("mcp", _PLANNING)
            self._planning[who.name] = make(store=state.smith.store, clock=state.clock, by=who)
        arguments = {name: value for name, value in given.items() if value is not None}
        result = await self._planning[who.name].execute(command=command, **arguments)
        if result.error:
            raise ToolError(result.error)
        return str(result.output)
