// What went wrong, in the person's language, by the code that the server gives.

import { t } from "../words/words";

const KNOWN = [
  "stale_decision", "not_found", "run_busy", "run_taken_over", "store_away", "not_ready", "too_often", "too_many_streams",
  "model_busy", "model_failed", "tool_busy", "tool_failed", "other_folder", "other_team", "invalid_input", "invalid_plan",
  "changed_meanwhile", "not_approved", "no_token", "no_scope", "too_large", "journal_damaged",
] as const;

export function faultText(code: string): string {
  const known = KNOWN.find((each) => each === code);
  return known ? t(`fault.${known}`) : "";
}
