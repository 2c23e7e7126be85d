// Which events make a list worth reading again.

import type { Event } from "../data/types";

const INBOX_EVENTS = new Set([
  "review_asked", "plan_approved", "plan_rejected", "changes_asked", "question_asked",
  "question_answered", "question_withdrawn", "run_finished", "plan_proposed",
]);

export const touchesInbox = (event: Event): boolean => INBOX_EVENTS.has(event.body.type);

// Progress texts change no row; everything else may.
export const changesRows = (event: Event): boolean => event.body.type !== "step_progressed";

export const endsRun = (event: Event): boolean => event.body.type === "run_finished";
