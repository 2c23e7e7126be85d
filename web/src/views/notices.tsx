// Notices: where people are told what waits for them, and whether that works.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { post } from "../live/api";
import { useResource } from "../live/hooks";
import { Button, ErrorNote, Shown, useAction } from "../ui/parts";
import { duration, moment, t } from "../words/words";
import { NotifyButton } from "./inbox";

interface Channel { name: string; kind: "webhook" | "slack" | "mail"; to: string; after_s: number; sent: number; failed: number; error: string; at: string | null }

export function Notices(): JSX.Element {
  const channels = useResource<{ items: Channel[] }>("/v1/notices");
  return (
    <section class="panel">
      <h2>{t("desk.notices")}</h2>
      <p class="dim">{t("desk.noticesWhy")}</p>
      <div><NotifyButton /></div>
      <Shown of={channels}>{({ items }) => items.length === 0
        ? <p class="dim small">{t("desk.noNotices")}</p>
        : <ul class="channels">{items.map((each) => <One key={each.name} channel={each} reload={channels.reload} />)}</ul>}</Shown>
    </section>
  );
}

function One({ channel, reload }: { channel: Channel; reload: () => void }): JSX.Element {
  const action = useAction();
  const [arrived, setArrived] = useState(false);
  const test = (): void => action.act(async () => {
    setArrived(false);
    await post(`/v1/notices/${encodeURIComponent(channel.name)}/test`);
    setArrived(true);
    reload();
  });
  const facts = [t(`desk.kind.${channel.kind}`), channel.to, channel.after_s > 0 && t("desk.noticeAfter", { time: duration(channel.after_s) }), channel.sent > 0 && t("desk.noticeSent", { count: channel.sent })];
  return (
    <li>
      <div class="line">
        <span class="what"><b>{channel.name}</b> <small class="dim">{facts.filter(Boolean).join(" · ")}</small></span>
        <Button disabled={action.busy} onClick={test}>{t("desk.noticeTest")}</Button>
      </div>
      {(channel.failed > 0 || channel.error) && <p class="small bad">{channel.failed > 0 && `${t("desk.noticeFailed", { count: channel.failed })}. `}{channel.error} <span class="dim">{moment(channel.at)}</span></p>}
      <p class="small good" role="status">{arrived ? t("desk.noticeArrived") : ""}</p>
      <ErrorNote error={action.error} />
    </li>
  );
}
