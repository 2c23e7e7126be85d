"""Everything about words of English and Chinese: verbs, numbers, dates, units, yes and no."""
