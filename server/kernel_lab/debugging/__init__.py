"""Looking at one case closely: what the debug page shows, what a kernel does inside, and what leaves as a file.

    specimen     a case on a variant laid open: plan, WGSL and where its lines come from, inputs, expected outputs
    desk         answers what the debug page asks (questions)
    records      what a debug run writes, and how it is read back
    instrument   what any WGSL needs to write it: two bindings, the invocation's place, a few functions
    probing      the `probe(…)` lines of a template
    writers      the stores to a buffer, in any WGSL
    inspecting   both, run one after the other; the answer as JSON
    reducing     a failing case made as small as it can be, in steps (shrinking) that keep its kind (kinds)
    artifacts    what a failure leaves in a folder
    literal      a case as an entry of test.json
    saving       a run made a standalone page: one HTML file, for any browser (standalone)

Plans go in and plans come out: a debug run is a run like any other, with one more buffer to read.
"""
