"""How documents are shown: sentences, headlines and tables, for a terminal and for the status page.

This package reads only `documents` and the model, so a saved document is shown as it was when it was made.
"""
