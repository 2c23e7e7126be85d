// Notifications of the browser when a plan or a question begins to wait while nobody looks.

import { useEffect, useState } from "preact/hooks";
import type { InboxItem } from "../data/types";
import { link } from "../route";
import { t } from "../words/words";
import { get } from "./api";
import { live } from "./stream";

const STORED = "plansmith-notify";
const SOON = 400;
const ASKS = new Set(["review_asked", "question_asked"]);

export type Notifying = "on" | "off" | "denied" | "impossible";

export function notifying(): Notifying {
  if (!("Notification" in window)) return "impossible";
  if (Notification.permission === "denied") return "denied";
  return Notification.permission === "granted" && localStorage.getItem(STORED) === "on" ? "on" : "off";
}

// The browser's own question comes only after a person pressed a button.
export function useNotifying(): [Notifying, (on: boolean) => void] {
  const [state, setState] = useState<Notifying>(notifying());
  const change = (on: boolean): void => {
    localStorage.setItem(STORED, on ? "on" : "off");
    if (!on || Notification.permission !== "default") setState(notifying());
    else void Notification.requestPermission().then(() => setState(notifying()));
  };
  return [state, change];
}

export function useNotifications(): void {
  useEffect(() => {
    const asking = new Set<string>();
    let timer = 0;
    const tell = (): void => {
      timer = 0;
      const runs = new Set(asking);
      asking.clear();
      if (document.visibilityState === "visible" || notifying() !== "on") return;
      void get<{ items: InboxItem[] }>("/v1/inbox").then(({ items }) => show(items.filter((each) => each.run && runs.has(each.run))), () => undefined);
    };
    const stop = live.listen({
      event: (event) => {
        if (!ASKS.has(event.body.type) || notifying() !== "on") return;
        asking.add(event.run);
        timer ||= window.setTimeout(tell, SOON);
      },
    });
    return () => { stop(); clearTimeout(timer); };
  }, []);
}

function show(items: InboxItem[]): void {
  const first = items[0];
  if (!first) return;
  const one = items.length === 1;
  const title = one ? t(`inbox.${first.kind}`) : t("rail.waiting", { count: items.length });
  // One at a time: a later one takes the place of an earlier one. Values of a call are never in it.
  const told = new Notification(title, { body: items.map((each) => each.goal || each.request || "").slice(0, 4).join("\n"), tag: "plansmith", icon: "./icon.svg" });
  told.onclick = () => {
    window.focus();
    location.hash = one ? link(["runs", first.run ?? ""]) : link(["inbox"]);
    told.close();
  };
}
