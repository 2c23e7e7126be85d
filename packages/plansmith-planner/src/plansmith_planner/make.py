"""Makes a model from its name or its settings; loads only what that model needs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, TypedDict, Unpack, cast

from pydantic import ValidationError

from plansmith import plugins
from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith_planner.settings import ModelSettings

if TYPE_CHECKING:
    from plansmith.arguments import Options
    from plansmith.plan.data import Record
    from plansmith.plan.planning import Tell
    from plansmith.ports import ChatModel, Clock
    from plansmith_planner import model_planner
    from plansmith_planner import settings as planner_settings
    from plansmith_planner.models import choose, fact_checked, provider, provider_output, wrappers
    from plansmith_planner.ranking import minilm
else:
    lazy_modules(
        globals(),
        choose="plansmith_planner.models.choose",
        fact_checked="plansmith_planner.models.fact_checked",
        minilm="plansmith_planner.ranking.minilm",
        model_planner="plansmith_planner.model_planner",
        planner_settings="plansmith_planner.settings",
        provider="plansmith_planner.models.provider",
        provider_output="plansmith_planner.models.provider_output",
        wrappers="plansmith_planner.models.wrappers",
    )


_OURS: Final = frozenset({"local", "recorded", "rules"})


class ModelOptions(TypedDict, total=False):
    """What a model can be given beside its name, its server and its key."""

    timeout_s: float
    silence_s: float
    tries: int
    context_tokens: int
    output: str


def model(
    name: str = "auto",
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    tell: Tell = lambda _: None,
    **settings: Unpack[ModelOptions],
) -> ChatModel:
    """Makes a model from its name; nothing is contacted before the first call.

    Args:
        name: A provider and its model, such as `openai:gpt-5`; `local` for the embedded model;
            `rules` for rules without a model; `auto` for what is there: a provider's key, a
            server on this machine, the embedded model, else rules.
        base_url: The address of a server that speaks OpenAI's protocol.
        api_key: The key itself. Without it, the provider's environment variable is read.
        tell: Receives which model `auto` has found.
        **settings: Settings of a model: `timeout_s`, `silence_s`, `tries`, `context_tokens`,
            `output`.

    Raises:
        Misconfigured: The name or a setting is wrong, or the provider's key is missing.

    Examples:
        >>> from plansmith_planner import model
        >>> model("rules").name
        'rules'
        >>> model("gpt-5")
        Traceback (most recent call last):
        plansmith.errors.Misconfigured: 'gpt-5' is not the name of a model (…)
    """
    checked = _settings({"model": name, "base_url": base_url, **settings})
    require_usable(checked, api_key=api_key)
    return make_model(checked, clock=SystemClock(), tell=tell, api_key=api_key)


def _given_model(given: ChatModel | str | None) -> ChatModel | None:
    return model(given) if isinstance(given, str) else given


def _settings(values: Mapping[str, object]) -> ModelSettings:
    try:
        return ModelSettings.model_validate(values)
    except ValidationError as error:
        flaw = error.errors()[0]
        place = ".".join(str(part) for part in flaw["loc"])
        hint = Sentence("name it as provider:name, such as openai:gpt-5")
        message = Sentence("the model's {place}: {error}", place=place, error=flaw["msg"])
        raise Misconfigured(message, hint=hint) from error


def require_usable(settings: ModelSettings, *, api_key: str | None = None) -> None:
    """Raises `Misconfigured` if no provider has the model that is named, or its key is missing."""
    name = settings.model
    if name != "auto" and not _is_brought(name.partition(":")[0]):
        has_server = bool(settings.base_url or api_key or settings.api_key_env)
        provider_output.require_usable(name, environment=os.environ, has_server=has_server)


def model_of(given: ChatModel | str | None, *, tell: Tell = lambda _: None) -> ChatModel:
    """Returns the model that was given, by itself or by name; the automatic choice for none.

    One that is not set up says so at its first call, as programs for other planners expect it.
    """
    if given is None or isinstance(given, str):
        checked = _settings({"model": given or "auto"})
        return make_model(checked, clock=SystemClock(), tell=tell)
    return given


def make_planner(
    model: ChatModel | str | None,
    *,
    clock: Clock,
    settings: Record | None = None,
    options: Options,
) -> model_planner.ModelPlanner:
    """Makes the planner of a Plansmith that was given models, by themselves or by name."""
    if settings is not None and not isinstance(settings, planner_settings.PlannerSettings):
        raise Misconfigured(f"{settings!r} are no settings", hint="give PlannerSettings(…)")
    triage_model = _given_model(options.get("triage_model"))
    report_model = _given_model(options.get("report_model"))
    planning_model = _given_model(model) or report_model or triage_model
    assert planning_model is not None  # noqa: S101
    ranker = options.get("ranker")
    if "ranker" not in options and settings is not None and settings.semantic:
        ranker = minilm.MiniLmRanker()
    return model_planner.ModelPlanner(
        planning_model,
        clock=clock,
        triage_model=triage_model,
        report_model=report_model,
        context=options.get("context", ()),
        ranker=ranker,
        settings=settings,
    )


def make_model(
    settings: ModelSettings,
    *,
    clock: Clock,
    tell: Tell = lambda _: None,
    api_key: str | None = None,
) -> ChatModel:
    """Makes the model that the settings name, with retries and limits on time and length.

    An installed package may bring models by a word before a colon, such as `local:NAME`: an entry
    point in the group `plansmith.models`, called with the name. All others are of a provider.
    Nothing is contacted before the first call, so a wrong key or name does not stop the start.
    `tell` receives which model was found when the settings say `auto`. `api_key` is used in
    place of the variable that the settings name.
    """
    name, variable = settings.model, settings.api_key_env
    if name == "auto":
        return _auto(settings, clock=clock, tell=tell, api_key=api_key)
    kind, _, rest = name.partition(":")
    if _is_brought(kind):
        brought: ChatModel = plugins.load("models", kind)(rest)
        return brought
    if ":" not in name:
        known = Sentence("auto, local, rules, recorded:FILE, or provider:name such as openai:gpt-5")
        raise Misconfigured(Sentence("'{name}' is not the name of a model", name=name), hint=known)
    if not api_key and variable and not os.environ.get(variable):
        why = Sentence("the environment variable {variable} is not set", variable=variable)
        return wrappers.RefusingModel(name, why=why, hint=f"export {variable}=…")
    made: ChatModel = provider.ProviderModel(
        name,
        base_url=settings.base_url,
        api_key=api_key or (os.environ[variable] if variable else None),
        timeout_s=settings.timeout_s,
        output=cast("Literal['auto'] | provider_output.Mode", settings.output),
    )
    if fact_checked.is_small(name):
        made = fact_checked.FactCheckedModel(made)
    return wrappers.ResilientModel(
        made,
        clock=clock,
        context_tokens=settings.context_tokens,
        silence_s=settings.silence_s,
        tries=settings.tries,
    )


def _is_brought(kind: str) -> bool:
    """Whether a package brings models under a name; a missing one of ours says what to install."""
    return kind in _OURS or kind in plugins.names("models")


def _auto(
    settings: ModelSettings, *, clock: Clock, tell: Tell, api_key: str | None
) -> choose.AutoModel:
    variable = settings.api_key_env
    if (variable or api_key) and not settings.base_url:
        hint = Sentence("name the model that the key is for, too")
        raise Misconfigured(Sentence("a key for a model is set, but no model"), hint=hint)

    def make(choice: choose.Choice) -> ChatModel:
        found = {"model": choice.model, "base_url": choice.base_url}
        key = variable or choice.api_key_env
        return make_model(settings.replace(**found, api_key_env=key), clock=clock, api_key=api_key)

    async def find() -> choose.Choice:
        if settings.base_url:
            key = api_key or (os.environ.get(variable, "") if variable else "")
            return await choose.choose_at(settings.base_url, key=key)
        return await choose.choose(os.environ, shelf=choose.installed_shelf())

    return choose.AutoModel(find, make, tell=tell)
