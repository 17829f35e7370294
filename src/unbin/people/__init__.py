"""Who the people are: tables of people, formulas, columns turned into features."""
