"""The history: what has happened as entries, from the loop's states to the ConfigMaps that keep them.

    states of the loop ──► entries ──► outbox, stored with the memory ──► ring of segments, trend

An entry is made in the step that observes what it reports, and stored with it in one write. So after a crash either
both are known or neither, and the next leader observes the same again.
"""
