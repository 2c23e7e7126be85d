// Tools and agents: what plans may use, what waits for approval, shown whole before it counts.

import type { JSX } from "preact";
import type { Effect, Json, JsonObject } from "../data/types";
import { post } from "../live/api";
import { useResource } from "../live/hooks";
import { go, link } from "../route";
import type { Route } from "../route";
import { Icon } from "../ui/icons";
import { Button, Empty, ErrorNote, Head, JsonBox, Shown, Tabs, useAction } from "../ui/parts";
import { Prose } from "../ui/prose";
import { EffectChip } from "../ui/status";
import { currentLocale, t } from "../words/words";

interface Tool {
  name: string;
  kind?: string;
  description: string;
  effect: Effect | null;
  server: string | null;
  schema: JsonObject | null;
  approved: boolean;
  changed: boolean;
  hash?: string;
  text?: string;
  definition?: Json;
}

interface Agent {
  name: string;
  kind?: string;
  description?: string;
  effect?: Effect;
  enabled?: boolean;
  skills?: { name: string; description?: string }[];
  status?: string;
  hash?: string;
  why?: string;
  changes?: string[];
  url?: string;
  card?: Json;
}

export function ToolsView({ route }: { route: Route }): JSX.Element {
  const which = route.parts[1] === "agents" ? "agents" : "tools";
  return (
    <>
      <Head title={t("tools.title")} />
      <Tabs label={t("tools.title")} current={which} tabs={(["tools", "agents"] as const).map((each) => (
        { id: each, name: t(`tools.${each}`), href: link(each === "agents" ? ["tools", "agents"] : ["tools"]) }))} />
      {which === "tools" ? <Tools q={route.query.get("q") ?? ""} /> : <Agents />}
    </>
  );
}

function Tools({ q }: { q: string }): JSX.Element {
  const tools = useResource<{ items: Tool[] }>(`/v1/tools${q ? `?q=${encodeURIComponent(q)}` : ""}`);
  return (
    <>
      <div class="filters"><input type="search" aria-label={t("app.search")} placeholder={t("app.search")} value={q} onInput={(event) => go(["tools"], { q: event.currentTarget.value }, true)} /></div>
      <Shown of={tools}>{({ items }) => items.length === 0 ? <Empty icon="tools" title={t("tools.empty")} why={t("tools.emptyWhy")} /> : (
        <>
          {items.filter((each) => !each.approved).map((each) => <Waiting key={`${each.kind}${each.name}`} tool={each} onApproved={tools.reload} />)}
          <ul class="cards">{items.filter((each) => each.approved).map((each) => <Card key={each.name} tool={each} />)}</ul>
        </>
      )}</Shown>
    </>
  );
}

// The command or definition is shown whole: a person approves what stands there, by its hash.
function Waiting({ tool, onApproved }: { tool: Tool; onApproved: () => void }): JSX.Element {
  const action = useAction();
  const approve = (): void => action.act(async () => { await post("/v1/tools/approve", { server: tool.name, hash: tool.hash }); onApproved(); });
  return (
    <section class="note ask">
      <Icon name={tool.changed ? "warning" : "asking"} />
      <div>
        <h2>{tool.name} <span class="chip">{t(tool.changed ? "tools.changed" : "tools.notApproved")}</span></h2>
        <p>{t("tools.approveWhy")}</p>
        <pre class="json" tabIndex={0} role="group" aria-label={tool.name}>{tool.text}</pre>
        {tool.definition !== undefined && <details><summary>{t("tools.schema")}</summary><JsonBox value={tool.definition} label={tool.name} /></details>}
        <p class="dim small">{t("tools.hash")} <code>{tool.hash}</code></p>
        <ErrorNote error={action.error} />
        <Button kind="primary" disabled={action.busy} onClick={approve}>{t("tools.approve", { name: tool.name })}</Button>
      </div>
    </section>
  );
}

// Models read descriptions in two languages; a person reads one of them.
function inOneLanguage(text: string): string {
  const chinese = /\s*[(（]([^()（）]*[\u4e00-\u9fff][^()（）]*)[)）]/;
  const found = chinese.exec(text);
  return !found ? text : currentLocale() === "zh" ? `${found[1]}。` : text.replace(chinese, "");
}

function Card({ tool }: { tool: Tool }): JSX.Element {
  return (
    <li>
      <p class="line"><code>{tool.name}</code><EffectChip effect={tool.effect ?? undefined} /></p>
      <p class="dim"><Prose text={inOneLanguage(tool.description ?? "")} /></p>
      {tool.schema && <details><summary>{t("tools.schema")}</summary><JsonBox value={tool.schema} label={tool.name} /></details>}
    </li>
  );
}

function Agents(): JSX.Element {
  const agents = useResource<{ items: Agent[] }>("/v1/agents");
  return (
    <Shown of={agents}>{({ items }) => items.length === 0 ? <Empty icon="tools" title={t("tools.noAgents")} why={t("tools.noAgentsWhy")} /> : (
      <ul class="cards">{items.map((each) => <AgentCard key={`${each.kind ?? ""}${each.name}`} agent={each} onApproved={agents.reload} />)}</ul>
    )}</Shown>
  );
}

function AgentCard({ agent, onApproved }: { agent: Agent; onApproved: () => void }): JSX.Element {
  const action = useAction();
  const approve = (): void => action.act(async () => { await post("/v1/agents/approve", { name: agent.name, hash: agent.hash }); onApproved(); });
  const waits = agent.kind === "card" && agent.status !== undefined && agent.status !== "approved" && agent.hash;
  return (
    <li>
      <p class="line"><b>{agent.name}</b><span>{agent.status && <span class="chip">{agent.status}</span>} <EffectChip effect={agent.effect} /></span></p>
      {agent.url && <p class="dim small">{t("tools.address")} <code>{agent.url}</code></p>}
      {agent.description && <p class="dim">{agent.description}</p>}
      {agent.why && <p class="bad">{agent.why}</p>}
      {(agent.changes?.length ?? 0) > 0 && <><h3>{t("tools.diff")}</h3><ul>{agent.changes!.map((each) => <li key={each}>{each}</li>)}</ul></>}
      {(agent.skills?.length ?? 0) > 0 && <details><summary>{t("tools.skills")}</summary><ul>{agent.skills!.map((each) => <li key={each.name}><b>{each.name}</b> {each.description}</li>)}</ul></details>}
      {agent.card !== undefined && agent.card !== null && <details><summary>{t("tools.schema")}</summary><JsonBox value={agent.card} label={agent.name} /></details>}
      {waits && <><p class="dim small">{t("tools.hash")} <code>{agent.hash}</code></p><Button kind="primary" disabled={action.busy} onClick={approve}>{t("tools.approve", { name: agent.name })}</Button></>}
      <ErrorNote error={action.error} />
    </li>
  );
}
