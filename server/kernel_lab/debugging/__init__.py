"""Looking inside a kernel where it runs: which invocation wrote an element, and what values it had on the way.

    records      what a debug run writes, and how it is read back
    instrument   what any WGSL needs to write it: two bindings, the invocation's place, a few functions
    probing      the `probe(…)` lines of a template
    writers      the stores to a buffer, in any WGSL
    inspecting   both, run one after the other; the answer as JSON

Plans go in and plans come out: a debug run is a run like any other, with one more buffer to read.
"""
