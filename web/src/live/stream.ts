// One event stream for all tabs of a browser, since a browser opens only six connections to a
// host. The tab that holds the lock has the stream and hands every event on; when it goes, the
// next in line goes on from the position it has itself, so nothing is missed.

import type { Draft, Event } from "../data/types";
import { currentLocale } from "../words/words";
import { keyed } from "./api";

export type Message =
  | { kind: "event"; before: number; position: number; event: Event }
  | { kind: "many"; messages: Message[] }
  | { kind: "draft"; draft: Draft }
  | { kind: "conversation"; id: string }
  | { kind: "snapshot"; position: number }
  | { kind: "online"; online: boolean }
  | { kind: "hello" }
  | { kind: "here"; position: number; online: boolean; drafts: Draft[] };

// Events and drafts are told once a frame, however many came: a view is drawn once for all of them.
export interface Listener {
  event?: (event: Event) => void;
  // All events of a frame at once, after `event` was called for each.
  events?: (events: Event[]) => void;
  // A plan of this run is being written: `draftsOf` has what there is of it.
  draft?: (run: string) => void;
  // Something was said in a conversation, or taken back, or the conversation was deleted.
  conversation?: (id: string) => void;
  // Something was missed, or the stream begins anew: what is shown must be read again.
  resync?: () => void;
  online?: (online: boolean) => void;
}

const LOCK = "plansmith-stream";
const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
// A tab in the background gets no frames, but its title and its notices go on.
const LONGEST_FRAME = 250;
// Views are read after this long even if the stream is not there.
const LONGEST_START = 700;

export class LiveStream {
  private readonly listeners = new Set<Listener>();
  private channel: BroadcastChannel | undefined;
  private readonly drafts = new Map<string, Draft[]>();
  private pending: Event[] = [];
  private outgoing: Message[] = [];
  private drafted = new Set<string>();
  private frame = 0;
  private timer = 0;
  private starters: (() => void)[] | undefined = [];
  private source: EventSource | undefined;
  private wait = FIRST_WAIT;
  private position = -1;
  private leads = false;
  isOnline = true;

  constructor(private readonly path = "/v1/events") {}

  start(): void {
    this.channel = new BroadcastChannel(LOCK);
    this.channel.onmessage = (message: MessageEvent<Message>) => this.hear(message.data);
    this.tell({ kind: "hello" });
    setTimeout(() => this.begin(), LONGEST_START);
    if (!navigator.locks) {
      this.lead();
      return;
    }
    void navigator.locks.request(LOCK, () => {
      this.lead();
      return new Promise<never>(() => undefined);
    });
  }

  listen(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // Reads something once the position is known: what comes later is told, so it is read only once.
  whenReady(read: () => void): () => void {
    if (!this.starters) {
      read();
      return () => undefined;
    }
    this.starters.push(read);
    return () => { this.starters = this.starters?.filter((each) => each !== read); };
  }

  private begin(): void {
    const waiting = this.starters ?? [];
    this.starters = undefined;
    for (const read of waiting) read();
  }

  draftsOf(run: string): Draft[] { return [...(this.drafts.get(run) ?? [])]; }

  get isLeader(): boolean { return this.leads; }

  private lead(): void {
    this.leads = true;
    this.connect();
    addEventListener("online", () => this.connect());
    addEventListener("offline", () => this.tellOnline(false));
  }

  private connect(): void {
    this.source?.close();
    const after = this.position >= 0 ? `&after=${this.position}` : "";
    const source = new EventSource(keyed(`${this.path}?brief=true&lang=${currentLocale()}${after}`));
    this.source = source;
    source.onopen = () => {
      this.wait = FIRST_WAIT;
      this.tellOnline(true);
    };
    source.onerror = () => this.lost(source);
    source.addEventListener("snapshot", (message) => this.send(readSnapshot(message)));
    source.addEventListener("run_event", (message) => this.send(this.readEvent(message)));
    source.addEventListener("draft", (message) =>
      this.send({ kind: "draft", draft: JSON.parse((message as MessageEvent<string>).data) as Draft }));
    source.addEventListener("conversation", (message) =>
      this.said((JSON.parse((message as MessageEvent<string>).data) as { id: string }).id));
  }

  // All tabs hear at once of what is said in one of them.
  said(id: string): void { this.send({ kind: "conversation", id }); }

  // Our own reconnection, not the browser's: the position must be that of this tab.
  private lost(source: EventSource): void {
    if (source !== this.source) return;
    source.close();
    this.begin();
    this.tellOnline(false);
    setTimeout(() => { if (source === this.source) this.connect(); }, this.wait);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
  }

  private readEvent(message: globalThis.Event): Message {
    const { data, lastEventId } = message as MessageEvent<string>;
    const event = JSON.parse(data) as Event;
    const position = event.position ?? Number(lastEventId);
    return { kind: "event", before: this.position, position, event };
  }

  private tellOnline(online: boolean): void {
    if (online !== this.isOnline) this.send({ kind: "online", online });
  }

  private send(message: Message): void {
    this.take(message);
    this.outgoing.push(message);
    this.tellSoon();
  }

  private tell(message: Message): void {
    this.channel?.postMessage(message);
  }

  // One message for all of a frame: each costs the other tabs a task of its own.
  private handOn(): void {
    const messages = this.outgoing;
    this.outgoing = [];
    if (messages.length) this.tell(messages.length === 1 ? messages[0]! : { kind: "many", messages });
  }

  private hear(message: Message): void {
    if (message.kind === "many") {
      message.messages.forEach((each) => this.take(each));
    } else if (message.kind !== "hello") {
      this.take(message);
    } else if (this.leads) {
      this.handOn();
      const drafts = [...this.drafts.values()].flat();
      this.tell({ kind: "here", position: this.position, online: this.isOnline, drafts });
    }
  }

  private take(message: Message): void {
    switch (message.kind) {
      case "event":
        if (message.position <= this.position) return;
        if (this.position >= 0 && message.before > this.position) this.resync();
        this.position = message.position;
        this.forget(message.event);
        this.pending.push(message.event);
        this.tellSoon();
        break;
      case "draft":
        this.keep(message.draft);
        break;
      case "conversation":
        for (const each of this.listeners) each.conversation?.(message.id);
        break;
      case "snapshot":
        // A smaller position is that of a store that was put back to an earlier state.
        this.position = message.position;
        this.beginOrResync();
        break;
      case "online":
        this.setOnline(message.online);
        break;
      case "here":
        if (this.position < 0) {
          this.position = message.position;
          message.drafts.forEach((draft) => this.keep(draft));
          this.begin();
        }
        this.setOnline(message.online);
        break;
    }
  }

  // Nothing was read yet before the first snapshot, unless the stream was late.
  private beginOrResync(): void {
    if (this.starters) this.begin();
    else this.resync();
  }

  private keep(draft: Draft): void {
    const known = this.drafts.get(draft.run);
    // How far a model is replaces how far it was.
    if (draft.progress && known?.at(-1)?.progress) known.pop();
    if (known) known.push(draft);
    else this.drafts.set(draft.run, [draft]);
    this.drafted.add(draft.run);
    this.tellSoon();
  }

  private tellSoon(): void {
    if (this.timer) return;
    this.timer = window.setTimeout(() => this.tellAll(), LONGEST_FRAME);
    this.frame = requestAnimationFrame(() => this.tellAll());
  }

  private tellAll(): void {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.timer = 0;
    this.handOn();
    const [events, drafts] = [this.pending, this.drafted];
    this.pending = [];
    this.drafted = new Set();
    for (const each of this.listeners) {
      for (const event of events) each.event?.(event);
      if (events.length) each.events?.(events);
      for (const run of drafts) each.draft?.(run);
    }
  }

  // What was drafted stands in the journal now.
  private forget(event: Event): void {
    if (event.body.type === "plan_proposed" || event.body.type === "run_finished") this.drafts.delete(event.run);
  }

  private resync(): void {
    for (const each of this.listeners) each.resync?.();
  }

  private setOnline(online: boolean): void {
    const back = online && !this.isOnline;
    this.isOnline = online;
    for (const each of this.listeners) each.online?.(online);
    if (back) this.resync();
  }
}

function readSnapshot(message: globalThis.Event): Message {
  const { position } = JSON.parse((message as MessageEvent<string>).data) as { position: number };
  return { kind: "snapshot", position };
}

export const live = new LiveStream();
