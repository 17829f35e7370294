"""Outcomes that are categories: the multinomial logit of published counts, effects of groups."""
