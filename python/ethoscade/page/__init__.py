"""Pages: frozen data becomes one self-contained HTML file, with tables and charts, no network, no other scripts.

`parts` are what a page is made of, `document` writes it; `assets` are its style and scripts. Knows nothing of networks
and compilers, so that every room may hand it data.
"""
