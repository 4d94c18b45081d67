// The options of `tcc`. Spellings follow gcc and clang where they have one.
include "llvm/Option/OptParser.td"

class One<string name> : Flag<["-"], name>;
class Two<string name> : Flag<["--"], name>;
class OneJoined<string name> : Joined<["-"], name>;
class TwoJoined<string name> : Joined<["--"], name>;

def what : OptionGroup<"what">, HelpText<"What is made">;
def o : JoinedOrSeparate<["-"], "o">, Group<what>, MetaVarName<"FILE">, HelpText<"Write what is made: a library with its C header (FILE.so, FILE.a, FILE.o), an artefact (FILE.tcc), or what -emit= prints">;
def E : One<"E">, Group<what>, HelpText<"Stop after parsing and shape inference; same as -emit=captured">;
def S : One<"S">, Group<what>, HelpText<"Write the kernels' assembly to FILE.s (a GPU's to FILE.ptx)">;
def c : One<"c">, Group<what>, HelpText<"Write the step as an object file with its C header (FILE.o, FILE.h)">;
def static : One<"static">, Group<what>, HelpText<"Put the runtime inside FILE.so, so that it needs no libtcc_runtime.so">;
def static_long : Two<"static">, Group<what>, Alias<static>;
def fsyntax_only : One<"fsyntax-only">, Group<what>, HelpText<"Check the input and stop">;
def emit_EQ : CommaJoined<["-", "--"], "emit=">, Group<what>, MetaVarName<"KIND,...">, HelpText<"Print: captured, joint, shaped, fused, planned, json (the plan), memory, memory.json, the fused graph as a picture (dot, svg, model-explorer) or the captured one (captured.svg, …), or what the target shows of kernels (below)">;
def x : JoinedOrSeparate<["-"], "x">, Group<what>, MetaVarName<"LANGUAGE">, HelpText<"The input's language; 'graph' is the one there is">;

def how : OptionGroup<"how">, HelpText<"How it is made">;
def fPIC : One<"fPIC">, Group<how>, HelpText<"Nothing changes: code is always position-independent (as -fpic, -fPIE, -fpie)">;
def fpic : One<"fpic">, Alias<fPIC>;
def fPIE : One<"fPIE">, Alias<fPIC>;
def fpie : One<"fpie">, Alias<fPIC>;
def g : One<"g">;
foreach kind = ["1", "2", "3", "gdb", "gdb1", "gdb2", "gdb3", "dwarf", "dwarf-2", "dwarf-3", "dwarf-4", "dwarf-5", "line-tables-only",
                "split-dwarf"] in
  def g_#!subst("-", "_", kind) : One<"g"#kind>, Alias<g>;
def g0 : One<"g0">;
def ggdb0 : One<"ggdb0">, Alias<g0>;
def target_EQ : TwoJoined<"target=">, Group<how>, MetaVarName<"TARGET">, HelpText<"What is compiled for: cpu (default) or another one below">;
def shape_EQ : TwoJoined<"shape=">, Group<how>, MetaVarName<"NAME:16x256">, HelpText<"Sizes of an argument with '?' dims; may be repeated">;

def ranks_EQ : TwoJoined<"ranks=">, Group<how>, MetaVarName<"N[:RANK]">, HelpText<"What one of N ranks computes of lanes, by default the first">;
def reduce_EQ : TwoJoined<"reduce=">, Group<how>, MetaVarName<"tree|fast">, HelpText<"How ranks add up: in one tree, with the bits of one rank (default), or in the order of their engine">;
def zero_EQ : TwoJoined<"zero=">, Group<how>, MetaVarName<"0|1|2|3">, HelpText<"What ranks share out beside lanes: nothing (default), the optimizer's states (1), sums of gradients too (2), parameters too (3)">;

def run_group : OptionGroup<"run">, HelpText<"Running">;
def run : Two<"run">, Group<run_group>, HelpText<"Run once on random inputs and print the results">;
def run_EQ : TwoJoined<"run=">, Group<run_group>, MetaVarName<"N|reference">, HelpText<"Run N times, or once in the reference interpreter">;
def bench : Two<"bench">, Group<run_group>, HelpText<"Time 20 runs after a warm-up, and each kernel against the machine's limits">;
def bench_EQ : TwoJoined<"bench=">, Group<run_group>, MetaVarName<"N">, HelpText<"Time N runs">;
def ablate : Two<"ablate">, Group<run_group>, HelpText<"Time the step with everything on beside the same with one switch off at a time, in turn, five times">;
def ablate_EQ : TwoJoined<"ablate=">, Group<run_group>, MetaVarName<"N">, HelpText<"… N times">;
def json_EQ : TwoJoined<"json=">, Group<run_group>, MetaVarName<"F.json">, HelpText<"Write the figures of --bench or --ablate to a file; '-' is stdout">;
def plot_EQ : TwoJoined<"plot=">, Group<run_group>, MetaVarName<"F.svg">, HelpText<"Write the table of --ablate as a picture to a file; '-' is stdout">;
def check_device : Two<"check-device">, Group<run_group>, HelpText<"For a GPU: first one step kernel by kernel beside the CPU, each from the GPU's own operands">;
def input : Separate<["--"], "input">, Group<run_group>, MetaVarName<"NAME=FILE.npy">, HelpText<"Take an input or a state from a file; it gives '?' sizes too">;
def input_EQ : TwoJoined<"input=">, Group<run_group>, Alias<input>;
def output : Separate<["--"], "output">, Group<run_group>, MetaVarName<"NAME=FILE.npy">, HelpText<"Write a result, or a state after the last run, to a file">;
def output_EQ : TwoJoined<"output=">, Group<run_group>, Alias<output>;
def seed_EQ : TwoJoined<"seed=">, Group<run_group>, MetaVarName<"N">, HelpText<"Seed of the random inputs (0)">;
def profile_EQ : TwoJoined<"profile=">, Group<run_group>, MetaVarName<"F.json">, HelpText<"Write a Chrome trace of compilation and runs">;

def look : OptionGroup<"look">, HelpText<"Looking inside">;
def fdump_ir_EQ : OneJoined<"fdump-ir=">, Group<look>, MetaVarName<"all|changed|PASS">, HelpText<"Print the IR after passes">;
def fdump_dir_EQ : OneJoined<"fdump-dir=">, Group<look>, MetaVarName<"DIR">, HelpText<"Write dumps to DIR/INPUT.ir instead of stderr">;
def graph_breaks : Two<"graph-breaks">, Group<look>, HelpText<"Report each tcc.item and tcc.print: where, why, what it costs, what to write instead">;
def graph_breaks_EQ : TwoJoined<"graph-breaks=">, Group<look>, MetaVarName<"text|json">, HelpText<"… as text or JSON">;
def fverify_each : One<"fverify-each">, Group<look>, HelpText<"Run the interpreter before and after each pass and compare">;
def ftime_report : One<"ftime-report">, Group<look>, HelpText<"Print the time of each pass and of each part of code generation">;
def ftime_report_EQ : OneJoined<"ftime-report=">, Group<look>, MetaVarName<"text|json">, HelpText<"… as text or JSON">;
def ftime_trace : One<"ftime-trace">, Group<look>, HelpText<"Write where the time of the compilation goes as a Chrome trace to INPUT.json">;
def ftime_trace_EQ : OneJoined<"ftime-trace=">, Group<look>, MetaVarName<"FILE">, HelpText<"… to FILE">;
def save_temps : Flag<["-", "--"], "save-temps">, Group<look>, HelpText<"Write each stage to a file: INPUT.captured.graph to INPUT.planned.graph, INPUT.plan.json, kernels as text">;
def save_temps_EQ : Joined<["-", "--"], "save-temps=">, Group<look>, MetaVarName<"DIR">, HelpText<"… in DIR">;
def print_pipeline : Two<"print-pipeline">, Group<look>, HelpText<"Print the passes under the given options">;
def fdiagnostics_color : One<"fdiagnostics-color">, Group<look>;
def fno_diagnostics_color : One<"fno-diagnostics-color">, Group<look>;
def fcolor_diagnostics : One<"fcolor-diagnostics">, Alias<fdiagnostics_color>;
def fno_color_diagnostics : One<"fno-color-diagnostics">, Alias<fno_diagnostics_color>;
def fdiagnostics_color_EQ : OneJoined<"fdiagnostics-color=">, Group<look>, MetaVarName<"always|never|auto">, HelpText<"Colour of messages (auto; NO_COLOR is honoured)">;
def fdiagnostics_format_EQ : OneJoined<"fdiagnostics-format=">, Group<look>, MetaVarName<"text|sarif">, HelpText<"Errors and warnings as text, or as SARIF 2.1.0 on stderr">;
def W : OneJoined<"W">, Group<look>, MetaVarName<"[no-]WARNING|error[=WARNING]">, HelpText<"Switch a warning on or off, or make it an error">;
def w : One<"w">, Group<look>, HelpText<"Say no warning, whatever -W asks for">;
def v : One<"v">, Group<look>, HelpText<"Say what is done, with times">;
def verbose : Two<"verbose">, Alias<v>;

def about : OptionGroup<"about">, HelpText<"About this program">;
def help : Flag<["--", "-"], "help">, Group<about>, HelpText<"This text">;
def help_EQ : TwoJoined<"help=">, Group<about>, MetaVarName<"CATEGORY">, HelpText<"One part of it: what, how, flags, targets, run, look, warnings, about">;
def autocomplete_EQ : TwoJoined<"autocomplete=">, Group<about>, MetaVarName<"WORD">, HelpText<"What WORD may go on as, for shells">;
def man_page : Two<"man-page">;
def h : One<"h">, Group<about>, Alias<help>;
def _HASH_HASH_HASH : One<"###">, Group<about>, HelpText<"Print the command lines that would do it, every choice spelled out, and do nothing">;
def version : Two<"version">, Group<about>, HelpText<"Versions of tcc and its libraries">;
def explain : Separate<["--"], "explain">, Group<about>, MetaVarName<"TCCnnnn">, HelpText<"The page of a diagnostic, by its number or its warning's name">;
def explain_EQ : TwoJoined<"explain=">, Group<about>, Alias<explain>;
def dumpversion : One<"dumpversion">, Group<about>, HelpText<"The version alone">;
def dumpmachine : One<"dumpmachine">, Group<about>, HelpText<"The triple of this machine">;
def print_targets : Two<"print-targets">, Group<about>, HelpText<"What code can be compiled for (also -march=help)">;
def calibrate : Two<"calibrate">, Group<about>, HelpText<"Measure what this machine can do at most, and remember it for tables and remarks">;
def cache_stats : Two<"cache-stats">, Group<about>, HelpText<"What compiled steps and kernels are kept on disk, and where">;
def cache_clear : Two<"cache-clear">, Group<about>, HelpText<"Remove them">;
def compare : Two<"compare">, Group<about>, HelpText<"Show what differs between pages of --report, given as inputs, on one page at --report=DIR">;
def doctor : Two<"doctor">, Group<about>, HelpText<"What this machine has and lacks">;
