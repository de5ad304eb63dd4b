"""The history: entries about what has happened, from the loop's states to the ConfigMaps that store them.

    states of the loop ──► entries ──► outbox, stored with the memory ──► ring of segments, trend

An entry is made in the step that observes its occurrence, and both are stored in one write. So after a crash either
both are known, or neither is and the next leader observes the occurrence again.
"""
