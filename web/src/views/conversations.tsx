// Conversations: all of them, and one with its messages and runs in order.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { firstLines, inOrder, plans } from "../data/conversation";
import type { Conversation, ConversationRow, ConversationRun, Message, Question } from "../data/types";
import { call, get } from "../live/api";
import { conversationPath, useConversation, useConversations } from "../live/conversations";
import type { Rows } from "../live/conversations";
import { useNow } from "../live/hooks";
import { live } from "../live/stream";
import { go, link } from "../route";
import type { Route } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, Empty, ErrorNote, Head, Shown, moveByArrows, useAction } from "../ui/parts";
import { RunBadge } from "../ui/status";
import { ago, moment, t } from "../words/words";
import { MessageBox, Taken } from "./followup";
import { Questions } from "./questions";
import { WaitsBadge } from "./recent";

const PAGE = 50;

export function ConversationsView({ route }: { route: Route }): JSX.Element {
  const id = route.parts[1];
  return id === undefined ? <All /> : <One key={id} id={id} />;
}

function All(): JSX.Element {
  const first = useConversations(PAGE);
  const [older, setOlder] = useState<Rows>();
  const now = useNow(true);
  const next = older ? older.next : first.value?.next;
  const more = useAction();
  const read = (): void => more.act(async () => {
    const page = await get<Rows>(`/v1/conversations?limit=${PAGE}&cursor=${encodeURIComponent(next!)}`);
    setOlder({ items: [...(older?.items ?? []), ...page.items], next: page.next });
  });
  return (
    <>
      <Head title={t("rail.talks")} lead={t("talk.lead")}><a class="button primary" href="#/">{t("rail.new")}</a></Head>
      <Shown of={first}>{({ items }) => {
        const seen = new Set(items.map((each) => each.id));
        const all = [...items, ...(older?.items ?? []).filter((each) => !seen.has(each.id))];
        if (!all.length) return <Empty icon="answered" title={t("talk.empty")} why={t("talk.lead")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>;
        return (
          <>
            <ul class="rows" onKeyDown={moveByArrows}>{all.map((row) => <li key={row.id}><Row row={row} now={now} /></li>)}</ul>
            <ErrorNote error={more.error} />
            {next && <div class="actions"><Button disabled={more.busy} onClick={read}>{t("runs.more")}</Button></div>}
          </>
        );
      }}</Shown>
    </>
  );
}

function Row({ row, now }: { row: ConversationRow; now: number }): JSX.Element {
  return (
    <a data-row href={link(["conversations", row.id])}>
      <span class="what"><b>{row.title}</b><small>{row.messages === 1 ? t("talk.message") : t("talk.messages", { count: row.messages })}</small></span>
      <WaitsBadge waits={row.waits} />
      <time dateTime={row.updated_at}>{ago(row.updated_at, now)}</time>
    </a>
  );
}

function One({ id }: { id: string }): JSX.Element {
  const talk = useConversation(id);
  if (talk.error?.status === 404) {
    return <Head title={t("talk.gone")}><a class="button" href={link(["conversations"])}>{t("rail.talks")}</a></Head>;
  }
  return <Shown of={talk}>{(value) => <Whole talk={value} reload={talk.reload} />}</Shown>;
}

function Whole({ talk, reload }: { talk: Conversation; reload: () => void }): JSX.Element {
  const end = useRef<HTMLDivElement>(null);
  // What was said last is what a person comes for.
  useEffect(() => end.current?.scrollIntoView({ block: "end" }), [talk.last]);
  const waits = talk.runs.filter((run) => run.status === "reviewing");
  return (
    <div class="narrow conversation">
      <Head title={talk.title}><Delete id={talk.id} /></Head>
      {talk.summary && <details class="note"><summary>{t("talk.summary")}</summary><p class="pre">{talk.summary.text}</p></details>}
      <ol class="messages" aria-live="polite" aria-label={t("talk.messagesLabel")}>
        {inOrder(talk).map(({ message, run }) => (
          <li key={message ? message.number : run!.id}>
            {message ? <Bubble message={message} talk={talk} reload={reload} /> : <p class="bubble">{run!.request || run!.goal}</p>}
            {run && <Card run={run} />}
          </li>
        ))}
      </ol>
      {waits.map((run) => (
        <p key={run.id} class="note ask"><Icon name="reviewing" /><span>{t("inbox.review")}: <a href={link(["runs", run.id, "plan"])}>{run.goal || run.request}</a></span></p>
      ))}
      {byRun(talk.questions).map(([run, questions]) => <Questions key={run} run={{ id: run, questions }} onAnswered={reload} />)}
      <div ref={end}>
        <MessageBox id={talk.id} busy={plans(talk)} onSaid={reload} focus />
      </div>
    </div>
  );
}

function Bubble({ message, talk, reload }: { message: Message; talk: Conversation; reload: () => void }): JSX.Element {
  const first = message.kind === "request" && message.number === talk.messages[0]?.number && !message.undone;
  return (
    <div class={`message ${message.undone ? "undone" : ""}`}>
      <p class="bubble">{message.text}</p>
      <p class="dim small">{message.by.kind === "program" ? t("app.byProgram", { name: message.by.name ?? "" }) : message.by.name} <time dateTime={message.at}>{moment(message.at)}</time></p>
      {!first && <Taken id={talk.id} message={message} talk={talk} onUndone={reload} />}
    </div>
  );
}

function Card({ run }: { run: ConversationRun }): JSX.Element {
  return (
    <a class="card" href={link(["runs", run.id])}>
      <span class="line"><b>{run.goal || run.request}</b><RunBadge status={run.status} /></span>
      {run.answer && <span class="first-lines">{firstLines(run.answer)}</span>}
      {run.steps.total > 0 && run.status !== "reviewing" && <small class="dim">{t("go.done", run.steps)}</small>}
    </a>
  );
}

function byRun(questions: Conversation["questions"]): [string, Question[]][] {
  const found = new Map<string, Question[]>();
  for (const { run, ...question } of questions) found.set(run, [...(found.get(run) ?? []), question]);
  return [...found];
}

function Delete({ id }: { id: string }): JSX.Element {
  const action = useAction();
  const [sure, setSure] = useState(false);
  const remove = (): void => action.act(async () => {
    await call("DELETE", conversationPath(id));
    live.said(id);
    go(["conversations"]);
  });
  return (
    <>
      <Button kind="danger" icon="remove" disabled={action.busy} onClick={() => setSure(true)}>{t("app.delete")}</Button>
      <ErrorNote error={action.error} />
      {sure && <Confirm title={t("talk.deleteSure")} yes={t("app.delete")} onNo={() => setSure(false)} onYes={() => { setSure(false); remove(); }} />}
    </>
  );
}
