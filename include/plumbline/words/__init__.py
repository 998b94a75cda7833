"""Results of `analysis` in words: one file a subject. Findings, pages, reports and commands read the same sentence here."""
