"""Holds the hand-written text of docs/evidence.md."""
INTRODUCTION = """Every figure of this page is a simulation against a
measurement of a real chip that its source publishes (`clients/validation/table/measurements.json`: source, kernel,
parameters, how it was measured). Confidence is the measurement's: *high* is printed by AWS's
documentation, by the kernel's authors or by the profiler, with a public kernel; *medium* is read
from a screenshot, or a reference whose circumstances are partly inferred.

    nkisim validate                       # simulate everything, about a minute
    nkisim validate --only mamba
    nkisim validate --json result.json
    nkisim validate --config my_trn2.json --max-worst 20

[Below](#validate-and-calibrate) is how to fit a config to measurements of your own.

Nothing is fitted per kernel. [Below](#trn3) is what the few kernels of trn3 say.
"""

NEW = """## What a new kernel meets

Kernels from source. All rows of one kernel of one repository are one family, whatever their versions, sizes and types.
Each family is simulated with the numbers and compiler rules that are found without it (the third table below), and
counts once. *Calibrated* is with everything. Two families are not among them, as no run without what they showed is
fair: fused MLP (all loads repeated: 26 to 375 % slow), and Mamba (every result computed anew: 83 to 200 % slow). For
the same reason NKIBench's lora and swiglu spill: without, their addresses are beyond SBUF (51 and 22 % slow).
"""

SETS = """## How far off, held out first

Absolute errors of latencies, by how the simulation came about: the chip's own instruction streams
replayed, traces of our own that imitate a kernel, and kernels from source through the front end, whose
compiler is imitated. *Calibrated*: a number or a rule was chosen with the measurement, so its error
shows fit. *Held out*: none was, or it was found anew without it; the same kernel may be calibrated at
another size or type. Held out is weaker than unseen: most of these figures were known while the
machine was made. The API is that of the source as it runs here; what was measured on trn1 went through the first
compiler.
"""

FAMILIES = """Kernels from source by family. *Without what it showed*: with numbers and rules found without
the family's own measurements (the next table), where any rests on them. *Ranked*: Spearman's rank
correlation of simulated with measured latencies over all versions, sizes and types of a family, and,
since a search chooses between versions of one task, how many pairs of these are in the measured order
(pairs measured within 3 % of each other do not count). NKIBench's rows are seven tasks.
"""

CHOSEN = """Sharing of loads was chosen with fused MLP and NKIBench together. 27 measurements of MLPs that
were kept back from whoever made this are 21 % off in the mean.

What makes a measurement calibrated (`clients/validation/table/held_out.json`; a number whose source
names none of these makes everything calibrated, and a test fails):
"""

TRUST = """## How far to trust one run

Every timed run says it: `nkisim run` in the line `trust` and with `--json`, reports and notebooks,
`result.confidence`, the records of `nkisim evaluate`, and the pytest plugin where a test fails. The
fields:

| field | |
|---|---|
| `origin` | `trace`: it says itself what is issued; `nki`, `neuronxcc`: a kernel of the new or the legacy API, whose compiler is imitated (a saved program remembers) |
| `compiler` | instructions or tensors that each pass changed |
| `shares` | of the busy time, every engine's and the mean of the DMA engines': at rates and sizes that were *measured* on this generation, at *documented* rates, *extrapolated* beyond the sizes measured (`calibrated` in `configs/`) or for instructions that were not measured, at rates of an *other_generation*, at *assumed* rates |
| `rates` | the same per opcode, with the sizes that ran and those measured |
| `over_capacity` | the tiles exceed SBUF or PSUM |
| `uncertain` | the last three shares together; 1 over capacity and for several cores, but for the two of a kernel of the new API |
| `interval` | `low_us` and `high_us`; `coverage` 0.8, or null where no such latency is published; `versions`, below; `without`: the range of what the run takes with and without the numbers and rules that fewer than three measurements give, within `low_us` and `high_us` |
| `switches` | with `--confidence full` (`confidence="full"`, `NKISIM_CONFIDENCE=full`): the compiler's switches, each at every other choice, by compiling and timing the recorded program again, about 20 times without values: `tried`, those that `matter` (a latency more than 5 % away, the largest first) and those `refused` (no such program); else null. A program that is compiled already, or whose course depends on values, says `why_not`. Switches that only a recording follows (`broadcasts`) are not tried |
| `reasons`, `text` | the same in words |

Finding all but `switches` is 2 to 3 % of the time of a run of 204,000 instructions (perf); trying the
switches of 2,000 instructions takes 15 times a run's.

Numbers that fewer than three measurements give (`reach` in `configs/`) may not hold for another kernel. What each
instruction and transfer would take with the numbers' defaults is summed up, as if all were on the critical path, and
bounded by the largest ratio of a single one. With uneven rows and products between measured sizes this is `without`. Loads
that a statement of the new API repeats count as done once at its low end, as some compilers do. `clients/validation/table/reach` changes each number and checks that the result is within the interval.

The interval is `without`, or else the simulated latency, times the range of measured over simulated latencies of its
kind (`spread` in `configs/`), to the power of 1 + `widening` * `uncertain`. A measurement within `without` has no
error here, another is as far off as it is beyond. The range starts from
the lower and the upper tenth of the table's own programs and of the kernels from source, in which each family weighs
the same and comes with the numbers and rules found without it. It is the narrowest (within 2 %, what widens most), over multiples of both ends and
three widenings, that has seven of eight latencies of a family within when that family has no part in it (the mean over
families), and four of five of all. It claims four of five: kernels kept back were within more
seldom than families left out. `reasons` say what widens it. It holds no promise for a kernel unlike all of these.

*Versions* is by how much, as a logarithm, two versions of one kernel differ in their errors: four of five of 118 pairs
measured more than 3 % apart are within 1.28 times as much, also of a family left out. `nkisim compare` makes a probability
of it, which claims 88 % of these pairs and has 90 %.
"""

COMPILER = """## What is compared

Programs are traces of our own (`clients/validation/table/programs/`) with the structure and shapes of the measured
kernels; the two attention kernels are replays of the chip's own instruction streams
(docs/evidence.md). A source's latency contains what a kernel's simulation does not:

| latency from | added | source |
|---|--:|---|
| `nki.benchmark` | 7.8 us | p50 less kernel body of the two attention kernels: 7.0 and 8.6 |
| profile `total_time`, trn2 | 15.35 us | before the body 13.66, after it 1.69: the two device profiles |
| profile `total_time`, trn1 | 17 us | start of about 13 and teardown of about 4 in the Mamba profiles |

The tutorials' matmul latencies are long enough for this not to matter and have nothing added.

### The compiler's part

The sources do not say how the compiler ordered, allocated and queued what the kernels ask for. The
programs assume the following. Most of it was chosen after seeing the measurements, some of it for one
kernel family only, so these latencies are partly a fit of the compiler's part:

| assumption | without it |
|---|---|
| loads are triggered by SyncE, stores by ScalarE | tutorial matmul v2: +9 % (stores hold up the loads behind them) |
| loads run ahead of their use as far as buffers allow, 8 tiles where the source names one | ladder's first rung 5 % MFU instead of 16; vector additions three DMA latencies per step |
| rhs tiles that do not fit SBUF are loaded again (v4, FP32) | half of the HBM traffic that v4's profile shows |
| v5: loads are cut into 512 columns, and each piece comes when the one that it replaces has been used; in FP32 a block of each operand and the sums exceed SBUF by 20 KiB per partition, which are stored and come back by the rule that Mamba names below. The profile's HBM traffic is 339 MB more than the operands need: 20.2 KiB per block, there and back | the next block waits for the whole one before it: 11 % slower; double buffers that no SBUF holds: 19 % of the traffic missing |
| 2048^3 with resident operands (the compiler's scheduling was on): slices of both operands arrive alternately, and products of the rows that have an accumulator run as they do; an accumulator is cleared by VectorE right after it was emptied | tensor engine idle until the last slice: 75 % MFU instead of 81 (measured 82.9) |
| elsewhere the first product of a sum overwrites PSUM, `memset` before it costs nothing | hand-written kernel 36 % MFU |
| trn1 matmuls with hoisted loads (first API): a block of tiles is waited for and released as a whole, and SBUF holds none twice | -33 % and -31 % instead of -17 % and -2 % |
| average pooling (generation not stated: trn2 taken): software descriptors as in the vector additions, a buffer per window, stores behind the loads of 8 more groups of channels | a load's way there and back per window, 2.5 us instead of 1.1 |
| Mamba: `delta * u` leaves the loop over states, as its zoomed profile with 8192 steps shows | one VectorE instruction of five more |
| Mamba: B and C broadcast by the tensor engine into PSUM; where a row fits a bank VectorE reads it there and two states are interleaved, else ScalarE copies it to SBUF | 512 steps: +10 % without interleaving |
| Mamba: source order, tiles in 192 KiB per partition (trn2: 208 KiB less 8 bytes) by one general rule (`clients/validation/table/programs/memory.py`): what is used last leaves, is stored if HBM does not hold it, and comes back before its next use | v2 with 8192 steps 34 % too fast |
"""

REPLAYS = """## Replays of device profiles

`nkisim validate --replay --leave-one-out --write`: the chip's own instruction streams of
`clients/validation/table/profiles/`, simulated with the config's numbers. *Own phase* takes the phase of the tensor
engine's utilisation limit from the profile, all else the default. Engines: active time in points of
the total, the engine that is furthest off. Packets: error of single durations.

The tables of numbers found without a profile fit those of `clients/validation/table/leave_one_out.json` anew, from
the middle of their ranges; the other numbers stay, although they too were read from these profiles.
They were found before `dma.store_floor` was set between its two measured values (28 to 23 ns).

"""

PUBLIC = """## Public kernels, unchanged, through the front end

`clients/validation/table/public --nki-autotune PATH --aws-neuron-sdk PATH --nki-library PATH --accelopt PATH
--trainium-kernel-fusion PATH --nki-moe-megakernel PATH --write` runs kernels from checkouts, unchanged, with the compiler's part that [compiler.md](compiler.md) describes. None of
its rules knows a kernel. Profiles' and nki-library's latencies contain the fixed overhead above;
nothing is added for the tutorials' matmuls. nki-library's figures are references of its tests, and
many tests of different options share one figure.
"""

TRN3 = """## trn3

Four versions of a fused MoE decode kernel of nki-moe-megakernel, on the two cores of a pair (stored, as
all kernels from source). Active engines in percent of the total, measured, then simulated:
"""

TRN3_NOTES = """A total contains what a profile has before and after a kernel, taken to be trn2's 15.35 us. What these
kernels decided: a load that names no mode and whose address is found at run time is GpSimd's, at 0.85 us
each; copies of one-byte types run at an element a cycle; pieces of a load cost 17 ns each. A product of
MXFP8 (16384^3, yahavb/trn2-matmul-bench) shows 253.5 ns per 512 columns, 96 cycles of which are the load of
weights. Everything else of trn3 is documented rates and trn2's latencies.
"""

PUBLIC_NOTES = """What the defaults rest on besides this table: stores on ScalarE and loads on SyncE,
and inputs and outputs by software descriptors in legacy kernels, are what the two device profiles
show; the vector additions of the legacy API confirm the latter. AWS's tutorial says that
`nl.broadcast_to` over partitions runs on TensorE, and its zoomed Mamba profile has four VectorE
instructions per state where the kernel writes five: `delta * u` is computed once (`reuse`).

Open: nki-autotune measured its hand-written kernels with the compiler's instruction scheduling off,
yet they overlap loads and products as only a reordered stream does here (`schedule=program` is 2.5
times too slow); what else the compiler did for them is not known. Clearing PSUM: the single-bank
kernel's published 18.2 % of VectorE says that its compiler kept the `memset`, its latency fits both.
nki-library's kernels fix addresses and order themselves: program order changes their mean error by
half a point. trn1's tutorial matmuls with hoisted loads are too fast for the reasons given under Limits
and in the table "The compiler's part": compiled by the first API, they seem to wait for blocks as a
whole. Mamba v2 with 6144 steps is slow: its seven tiles of 24 KiB leave too little of SBUF for keeping
`delta * u`, which the chip, by its latency, seems to do.
"""

LIMITS = """## Limits

What the table shows to be wrong, in order of weight:

- **trn1 loads with short rows may be too fast.** The trn1 tutorial matmul's first three kernels move
  100 B/ns on the chip, the model 98 (every tile loaded twice), 117 (-15 %) and 98, for reasons that
  differ: 830 ns per transfer, taken from trn2's curve, and loads that wait for products.
- **trn1 stores**: as slow as loads since NKIBench's bmm (251 GB/s, mostly stores), which makes Mamba v2
  with 5120 steps 16 % slow and those with 7168 and 8192 steps right.
- **trn2 loads of short rows through one queue** are too fast: 152 and 246 GB/s in rows of 1 and 2 KiB on
  the chip, 188 and 340 here; and rows that conflict in HBM (448 MB in tiles of different width take
  1,096 to 1,554 us on the chip, 4 % differences here).
- **One-tile kernels**: the vector addition of one tile is 2.4 us fast, the published 32 KiB load over
  16 queues 15 % slow: completion of software-generated DMAs is not understood in full.
- **The 2048^3 kernels with the compiler's scheduling off** are 4 to 7 % slow. The chip spends 6 to 10 us
  besides the products, the model 20 to 30: first loads (SyncE triggers one per 0.61 us), the first
  window at half rate, the last store. What the profile adds before and after a kernel, 15.35 us, is
  known from two other kernels only.
- Shares off by more than 5 points: TensorE of the tutorial matmul v2 (5.7 low); VectorE of Mamba v1 with 4096 channels (5.7 high), while v1 with
  256 is 3.7 low. Its profile shows SBUF half full and VectorE waiting for loads; with 88 to 92 KiB of
  the 192 per partition the model's share falls from 97 to 87 % (measured 92), but nothing says how
  the compiler placed the tiles. Mamba's summed VectorE durations with 512 steps are 15 % low:
  operands in PSUM may have the long latency that is documented for SBUF.
- DMA packet time of the tutorial matmuls, rows of 512 and 2048 bytes, is 6 to 12 % high.

Not modelled: contention with the other core of a pair or with collectives, DRAM refresh and page
effects beyond a mean read stall, instruction fetch, clock changes other than the tensor engine's
throttle, and the phase of that throttle's window, which differs from run to run (docs/evidence.md).
"""

REASONS = (
    ("trn2-nkilib-", "nki-library MLP references: run through the front end, see below"),
    ("trn2-autotune-compiler", "the compiler's own kernel, no source"),
    ("trn1-doc-layernorm", "2.3 ms for 1.2 MB contradicts the stated shape"),
    ("trn1-doc-mamba-torch", "compiled from PyTorch, no kernel"),
    ("trn1-doc-prof-kernel", "shape not stated"),
    ("trn1-autocomp", "optimised kernel is described, not printed"),
    ("trn1-nkibench-", "run through the front end, see below"),
    ("trn2-fusion-mlp-", "run through the front end, see below"),
    ("trn2-fusion-trace-", "run through the front end and replayed, see below"),
    *((f"trn2-fusion-attn-{name}-p50", "run through the front end, see below") for name in (
        "fused-fp32-s512", "baseline-fp32-s1024", "fused-fp32-s1024", "baseline-bf16-s512",
        "baseline-bf16-s1024", "fused-bf16-s1024")),
    ("trn2-fusion-attn", "99th percentile of a kernel whose median is counted"),
)
