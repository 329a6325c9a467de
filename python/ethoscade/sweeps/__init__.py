"""Sweeps: many models on many targets within many budgets, on whatever runs them, as rows.

`questions` says what is asked, `rows` what is answered, `answers` finds it, `driver` hands questions out, `workers` are
the processes that do so by default, `cluster` those of other machines, `files` keep rows, `needs` reads them together,
`sweep_page` shows what it read.
"""
