// A rule as a sentence, where the server has not said it: in the difference of two plans.

import { rowsOf } from "../data/conditions";
import { readable } from "../data/json";
import type { Json, JsonObject } from "../data/types";
import { t } from "../words/words";
import type { Key } from "../words/words";

export function conditionText(condition: Json | undefined): string {
  const known = rowsOf(condition);
  if (!known) return readable(condition);
  const unary = new Set(["empty", "not_empty"]);
  const texts = known.rows.map(({ operator, left, right }) => {
    const words = [readable(left), t(`rule.is.${operator}`), unary.has(operator) ? "" : readable(right)];
    return words.filter(Boolean).join(" ");
  });
  return texts.join(` ${t(known.join === "all" ? "rule.and" : "rule.or")} `);
}

export function ruleText(name: string, rule: Json | undefined): string {
  const given = (typeof rule === "object" && rule !== null && !Array.isArray(rule) ? rule : {}) as JsonObject;
  const pace = { most: readable(given["at_most"]), every: readable(given["every"] ?? 0) };
  if (name === "when") return t("rule.say.when", { condition: conditionText(rule) });
  if (name === "repeat") return t("rule.say.repeat", { condition: conditionText(given["until"]), ...pace });
  if (name === "retry") return t("rule.say.retry", pace);
  if (name === "otherwise") return t("rule.say.otherwise", { value: readable(given["value"]) });
  if (name === "on_error" && "value" in given) return t("rule.say.error", { what: readable(given["value"]) });
  const known = ["fail", "skip", "collect"].find((each) => each === rule);
  return known ? t(`rule.error.${known}` as Key) : readable(rule);
}
