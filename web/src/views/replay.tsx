// Replay: a run that is over, played like a film, with a link to any instant of it.

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Film, SPEEDS, usualSpeed } from "../data/film";
import type { Folded } from "../data/waits";
import type { Event, RunView } from "../data/types";
import { link } from "../route";
import { Icon } from "../ui/icons";
import { Button, Loading } from "../ui/parts";
import { RunBadge } from "../ui/status";
import { money, number, t } from "../words/words";
import { sentence } from "./log";
import { Overview } from "./overview";
import { precise } from "./times";

interface Props { run: RunView; events: Event[]; step: string | undefined; at: string | null }

export function Replay({ run, events, step, at }: Props): JSX.Element {
  const film = useMemo(() => (events.length ? new Film(events, run) : undefined), [events, run.last]);
  return film ? <Player film={film} run={run} step={step} at={at} /> : <Loading />;
}

function Player({ film, run, step, at }: { film: Film; run: RunView; step: string | undefined; at: string | null }): JSX.Element {
  const [hides, setHides] = useState(true);
  const cut = useMemo(() => film.cut(hides), [film, hides]);
  const [instant, setInstant] = useState(() => film.start + Math.max(0, Number(at ?? 0) || 0));
  const [speed, setSpeed] = useState(() => usualSpeed(cut.length));
  const [plays, setPlays] = useState(at === null);
  usePlaying(plays, speed, cut, instant, setInstant, () => setPlays(false));
  const passed = Math.round(instant - film.start);
  const address = link(["runs", run.id, "run", ...(step ? [step] : [])], { view: "replay", at: String(passed) });
  // The address follows where it stands still, so that it can be sent to somebody.
  useEffect(() => { if (!plays) history.replaceState(null, "", address); }, [plays, address]);
  const count = film.countAt(instant);
  const view = film.viewAt(instant);
  const jump = (to: number): void => { setPlays(false); setInstant(Math.min(film.end, Math.max(film.start, to))); };
  const asked = useRef(at);
  useEffect(() => {
    if (at !== asked.current && at !== null) jump(film.start + (Number(at) || 0));
    asked.current = at;
  }, [at]);
  const toggle = (): void => {
    if (!plays && instant >= film.end) setInstant(film.start);
    setPlays(!plays);
  };
  return (
    <div class="replay">
      <div class="player" role="group" aria-label={t("replay.label")}>
        <div class="actions">
          <Button kind="primary" icon={plays ? "paused" : "ready"} onClick={toggle}>{t(plays ? "replay.pause" : "replay.play")}</Button>
          <Button kind="quiet" icon="left" label={t("replay.before")} onClick={() => jump(film.timeOf(film.countAt(instant - 0.5) - 1))}>{""}</Button>
          <Button kind="quiet" icon="right" label={t("replay.next")} onClick={() => jump(film.timeOf(count))}>{""}</Button>
          <select aria-label={t("replay.speed")} value={String(speed)} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
            {SPEEDS.map((each) => <option key={each} value={String(each)}>{each}×</option>)}
          </select>
          <span class="clock">{precise(passed)} <span class="dim">/ {precise(film.end - film.start)}</span></span>
          <span class="grow" />
          <label class="check small"><input type="checkbox" checked={hides} onChange={() => setHides(!hides)} />{t("time.hide")}</label>
          <CopyLink address={address} />
        </div>
        <Scrubber film={film} cut={cut} instant={instant} onMove={jump} />
        <Caption run={run} event={film.events[count - 1]} />
      </div>
      <ul class="facts">
        <li><RunBadge status={view.status} /></li>
        <li>{doneText(view)}</li>
        {view.tokens > 0 && <li>{number(view.tokens)} {t("usage.tokens")}</li>}
        {Number(view.cost_usd) > 0 && <li>{money(view.cost_usd)}</li>}
      </ul>
      {view.plan ? <Overview run={view} step={step} now={instant} hrefOf={(id) => link(["runs", run.id, "run", id], { view: "replay", at: String(passed) })} />
        : <p class="dim">{t("replay.noPlan")}</p>}
    </div>
  );
}

function doneText(view: RunView): string {
  const steps = Object.entries(view.steps).filter(([name]) => !name.includes("/"));
  return t("go.done", { done: steps.filter(([, step]) => step.status === "done").length, total: steps.length });
}

// Goes on frame by frame, by the time that has passed and not by the number of frames.
function usePlaying(plays: boolean, speed: number, cut: Folded, instant: number, setInstant: (at: number) => void, onEnd: () => void): void {
  const latest = useRef({ instant, setInstant, onEnd });
  latest.current = { instant, setInstant, onEnd };
  useEffect(() => {
    if (!plays) return undefined;
    let film = cut.toFilm(latest.current.instant);
    let last: number | undefined;
    let frame = requestAnimationFrame(function next(time: number): void {
      film = Math.min(cut.length, film + (last === undefined ? 0 : (time - last) * speed));
      last = time;
      latest.current.setInstant(cut.toReal(film));
      if (film >= cut.length) latest.current.onEnd();
      else frame = requestAnimationFrame(next);
    });
    return () => cancelAnimationFrame(frame);
  }, [plays, speed, cut]);
}

const MARKS: Record<string, string> = { step_failed: "bad", step_unknown: "bad", question_asked: "ask", review_asked: "ask", plan_proposed: "change", run_started: "start" };

function Scrubber({ film, cut, instant, onMove }: { film: Film; cut: Folded; instant: number; onMove: (at: number) => void }): JSX.Element {
  const paths = useMemo(() => {
    const found = new Map<string, string>();
    for (const event of film.events) {
      const mark = MARKS[event.body.type] ?? (event.body.type === "step_done" ? "done" : undefined);
      if (mark) found.set(mark, `${found.get(mark) ?? ""}M${((cut.toFilm(Date.parse(event.at)) / cut.length) * 1000).toFixed(1)} 0v10`);
    }
    return [...found];
  }, [film, cut]);
  return (
    <div class="scrubber">
      <input type="range" min="0" max="1000" step="1" aria-label={t("replay.position")} aria-valuetext={precise(instant - film.start)}
        value={Math.round((cut.toFilm(instant) / cut.length) * 1000)} onInput={(event) => onMove(cut.toReal((Number(event.currentTarget.value) / 1000) * cut.length))} />
      <svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true">{paths.map(([mark, path]) => <path key={mark} class={mark} d={path} />)}</svg>
    </div>
  );
}

function Caption({ run, event }: { run: RunView; event: Event | undefined }): JSX.Element {
  return <p class="caption">{event ? <><span class="dim">{event.number}</span> {sentence(event, run.plan)}</> : " "}</p>;
}

function CopyLink({ address }: { address: string }): JSX.Element {
  const [copied, setCopied] = useState("");
  const copy = (): void => {
    const whole = `${location.origin}${location.pathname}${address}`;
    void navigator.clipboard.writeText(whole).then(() => setCopied(address));
  };
  return (
    <button type="button" class="button quiet" onClick={copy}>
      <Icon name="copy" />{t(copied === address ? "app.copied" : "replay.link")}
    </button>
  );
}
