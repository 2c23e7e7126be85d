// Inbox: everything that waits for a person, over all runs, newest first; most of it is decided here.

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import { chosenWith } from "../data/pages";
import type { InboxItem } from "../data/types";
import { post, runPath } from "../live/api";
import { useNow, useResource } from "../live/hooks";
import { useNotifying } from "../live/notify";
import { touchesInbox } from "../live/wakes";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { Button, Confirm, Empty, ErrorNote, Head, Shown, useAction } from "../ui/parts";
import { Prose } from "../ui/prose";
import { VirtualList } from "../ui/virtual";
import { ago, t } from "../words/words";
import { DecideHere } from "./decidehere";
import { asker } from "./questions";
import "../styles/desk.css";

const ICONS = { review: "reviewing", question: "asking", tool: "tools", schedule: "schedules" } as const;
const keyOf = (item: InboxItem): string => `${item.kind}${item.run ?? item.server ?? item.schedule ?? ""}${item.question?.question ?? ""}`;
const canDecide = (item: InboxItem): boolean => item.kind === "review" || item.kind === "question";

export function InboxView(): JSX.Element {
  const inbox = useResource<{ items: InboxItem[] }>("/v1/inbox", touchesInbox);
  return (
    <>
      <Head title={t("inbox.title")} lead={t("inbox.lead")}><NotifyButton /></Head>
      <Shown of={inbox}>{({ items }) => items.length === 0
        ? <Empty icon="inbox" title={t("inbox.empty")} why={t("inbox.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>
        : <Waiting unsorted={items} reload={inbox.reload} />}</Shown>
    </>
  );
}

export function NotifyButton(): JSX.Element | null {
  const [state, change] = useNotifying();
  if (state === "impossible") return null;
  if (state === "denied") return <p class="dim small">{t("desk.notifyDenied")}</p>;
  return <Button icon={state === "on" ? "done" : "note"} onClick={() => change(state !== "on")} pressed={state === "on"}>{t(state === "on" ? "desk.notifyOn" : "desk.notify")}</Button>;
}

function Waiting({ unsorted, reload }: { unsorted: InboxItem[]; reload: () => void }): JSX.Element {
  const now = useNow(true);
  const items = useMemo(() => [...unsorted].sort((one, other) => (one.since < other.since ? 1 : one.since > other.since ? -1 : 0)), [unsorted]);
  const [open, setOpen] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const some = items.filter((each) => chosen.has(keyOf(each)));
  const lastChosen = useRef("");
  const choose = (key: string, range: boolean): void => {
    setChosen(chosenWith(chosen, items.filter(canDecide).map(keyOf), key, range ? lastChosen.current : ""));
    lastChosen.current = key;
  };
  // Where the eye goes next: what comes after what was just decided.
  const decided = (at: number): void => {
    const next = items[at + 1] ?? items[at - 1];
    setOpen("");
    reload();
    if (next) document.querySelector<HTMLElement>(`.waiting [data-key="${CSS.escape(keyOf(next))}"] a[data-row]`)?.focus();
  };
  return (
    <>
      {some.length > 0 && <Chosen items={some} onDone={() => { setChosen(new Set()); reload(); }} />}
      <VirtualList items={items} keyOf={keyOf} guess={60} as="ul" class="rows inbox waiting" shown={open || undefined}>
        {(item, at, { key, ...row }) => {
          return (
            <li key={key} {...row} class={open === key ? "open" : ""}>
              <div class="top">
                {canDecide(item) && <input type="checkbox" checked={chosen.has(key)} aria-label={t("desk.choose", { name: titleOf(item) })} onClick={(event) => choose(key, event.shiftKey)} />}
                <a data-row href={target(item)}>
                  <span class={`mark ${item.kind === "review" ? "s-reviewing" : "s-asking"}`}><Icon name={ICONS[item.kind]} /></span>
                  <span class="what"><b>{titleOf(item)}</b><small>{t(`inbox.${item.kind}`)}{detail(item) && <> · <Prose text={detail(item)} /></>}</small></span>
                  <time dateTime={item.since}>{item.since ? ago(item.since, now) : ""}</time>
                </a>
                {canDecide(item) && <Button expanded={open === key} onClick={() => setOpen(open === key ? "" : key)}>{t(open === key ? "desk.fold" : item.kind === "review" ? "desk.look" : "desk.answer")}</Button>}
              </div>
              {open === key && <DecideHere item={item} onDecided={() => decided(at)} />}
            </li>
          );
        }}
      </VirtualList>
    </>
  );
}

// Several at once only where nothing runs because of it: plans are discarded, asking runs cancelled.
function Chosen({ items, onDone }: { items: InboxItem[]; onDone: () => void }): JSX.Element {
  const action = useAction();
  const [sure, setSure] = useState(false);
  const discard = (): void => action.act(async () => {
    const runs = new Map(items.map((each) => [each.run ?? "", each.kind]));
    for (const [run, kind] of runs) {
      await (kind === "review" ? post(runPath(run, "/decision"), { reject: true }) : post(runPath(run, "/cancel")));
    }
    onDone();
  });
  return (
    <div class="chosen">
      <b>{t("desk.chosen", { count: items.length })}</b>
      <Button kind="danger" disabled={action.busy} onClick={() => setSure(true)}>{t("desk.discard")}</Button>
      <ErrorNote error={action.error} />
      {sure && <Confirm title={t("desk.discardSure", { count: items.length })} yes={t("desk.discard")} onNo={() => setSure(false)} onYes={() => { setSure(false); discard(); }} />}
    </div>
  );
}

const titleOf = (item: InboxItem): string => item.goal || item.request || item.server || item.reason || "";

function detail(item: InboxItem): string {
  const { question } = item;
  if (question) return question.kind === "consent" ? asker(question) : `${asker(question)}: ${question.text}`;
  return item.kind === "schedule" ? item.reason ?? "" : item.review?.reasons?.[0] ?? "";
}

function target(item: InboxItem): string {
  if (item.kind === "tool") return link(["tools"]);
  if (item.kind === "schedule") return link(item.schedule ? ["schedules", item.schedule] : ["schedules"]);
  return link(["runs", item.run ?? ""]);
}
