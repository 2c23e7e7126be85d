// Inbox: everything that waits for a person, over all runs; questions can be answered here.

import type { JSX } from "preact";
import type { InboxItem } from "../data/types";
import { useNow, useResource } from "../live/hooks";
import { touchesInbox } from "../live/wakes";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { Empty, Head, Shown, moveByArrows } from "../ui/parts";
import { ago, t } from "../words/words";
import { asker } from "./questions";

const ICONS = { review: "reviewing", question: "asking", tool: "tools", schedule: "schedules" } as const;

export function InboxView(): JSX.Element {
  const inbox = useResource<{ items: InboxItem[] }>("/v1/inbox", touchesInbox);
  const now = useNow(true);
  return (
    <>
      <Head title={t("inbox.title")} lead={t("inbox.lead")} />
      <Shown of={inbox}>{({ items }) => items.length === 0
        ? <Empty icon="inbox" title={t("inbox.empty")} why={t("inbox.emptyWhy")}><a class="button primary" href="#/">{t("app.goNew")}</a></Empty>
        : (
          <ul class="rows inbox" onKeyDown={moveByArrows}>
            {items.map((item) => (
              <li key={`${item.kind}${item.run ?? item.server ?? item.schedule ?? ""}${item.question?.question ?? ""}`}>
                <a data-row href={target(item)}>
                  <span class={`mark ${item.kind === "review" ? "s-reviewing" : "s-asking"}`}><Icon name={ICONS[item.kind]} /></span>
                  <span class="what"><b>{headline(item)}</b><small>{t(`inbox.${item.kind}`)}{item.goal || item.request ? ` · ${item.goal || item.request}` : ""}</small></span>
                  <time dateTime={item.since}>{item.since ? ago(item.since, now) : ""}</time>
                </a>
              </li>
            ))}
          </ul>
        )}</Shown>
    </>
  );
}

function headline(item: InboxItem): string {
  if (item.question) return `${asker(item.question)}: ${item.question.text}`;
  return item.review?.reasons?.[0] || item.reason || item.goal || item.request || item.server || "";
}

function target(item: InboxItem): string {
  if (item.kind === "tool") return link(["tools"]);
  if (item.kind === "schedule") return link(item.schedule ? ["schedules", item.schedule] : ["schedules"]);
  return link(["runs", item.run ?? ""]);
}
