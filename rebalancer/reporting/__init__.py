"""How documents are shown: sentences, headlines and tables, for a terminal and for the status page.

It reads `documents` and the model, and nothing else: what was saved is shown as it was when it was made.
"""
