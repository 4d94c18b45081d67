// --config: what a file of options may hold, how it becomes arguments, and what is said of one that is wrong.
#include "models/options.h"
#include "models/options_file.h"
#include "test_files.h"
#include "tests/mutate.h"

#include <ctime>
#include <map>

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;

class OptionsFile : public testing::Test {
protected:
  /// What a command line with the file of this content gives.
  ParsedOptions parse(const std::string &content, Arguments more = {}) {
    more.insert(more.begin(), {"--config", path});
    std::ofstream(path, std::ios::binary) << content;
    return parseTrainOptions(more, {}, readOptionsFile);
  }

  TrainOptions options(const std::string &content, const Arguments &more = {}) {
    ParsedOptions result = parse(content, more);
    EXPECT_TRUE(result.options) << content.substr(0, 200) << "\n" << result.message;
    return result.options.value_or(TrainOptions{});
  }

  /// What is wrong, without the folder of the file: "run.yaml:1:2: …".
  std::string error(const std::string &content, const Arguments &more = {}) {
    ParsedOptions result = parse(content, more);
    EXPECT_FALSE(result.options) << content.substr(0, 200);
    EXPECT_EQ(result.exitStatus, 2);
    EXPECT_EQ(result.message.find('\n'), std::string::npos) << result.message;
    const std::string before = folder.path("");
    for (size_t at = result.message.find(before); at != std::string::npos; at = result.message.find(before))
      result.message.erase(at, before.size());
    return result.message;
  }

  TemporaryFolder folder{memoryFolder()};
  std::string path = folder.path("run.yaml");
};

TEST_F(OptionsFile, holdsOptionsOfEveryKind) {
  const TrainOptions o = options("# a run\n"
                                 "model: char\n"
                                 "batch: 8   # rows\n"
                                 "data: [a.txt, 'b c.txt']\n"
                                 "lr: 1e-3\n"
                                 "find-nan: true\n"
                                 "quiet: false\n"
                                 "no-cache: true\n"
                                 "dtype: bf16\n"
                                 "O: 3\n"
                                 "f: [no-schedule, simplify]\n"
                                 "ffast-math: false\n"
                                 "march: [x86-64-v3, x86-64-v4]\n"
                                 "Rpass: true\n"
                                 "Rpass-missed: all\n"
                                 "stop:\n- \"\\n\"\n- '--'\n"
                                 "prompt: |\n  In the\n  \tbeginning\n"
                                 "sample: \"12\"\n"
                                 "min-lr: 0\n"
                                 "eval-every: 10\n");
  EXPECT_EQ(o.model, "char");
  EXPECT_EQ(o.batch, 8);
  EXPECT_EQ(o.dataFiles, (Arguments{"a.txt", "b c.txt"}));
  EXPECT_EQ(o.schedule.peak, 1e-3);
  EXPECT_EQ(o.schedule.floor, 0);
  EXPECT_TRUE(o.findNan);
  EXPECT_FALSE(o.quiet);
  EXPECT_FALSE(o.diskCache);
  EXPECT_EQ(o.products, runtime::DType::bf16);
  EXPECT_EQ(o.level, 3);
  EXPECT_EQ(o.passes, (std::map<std::string, bool>{{"schedule", false}, {"simplify", true}}));
  EXPECT_FALSE(o.fastMath);
  EXPECT_EQ(o.march, "x86-64-v3,x86-64-v4");
  EXPECT_EQ(o.remarksPassed, dearestRemarks);
  EXPECT_EQ(o.remarksMissed, allRemarks);
  EXPECT_EQ(o.stop, (Arguments{"\n", "--"}));
  EXPECT_EQ(o.prompt, "In the\n\tbeginning\n");
  EXPECT_EQ(o.sampleTokens, 12);
  EXPECT_EQ(o.configFile, path);
  EXPECT_EQ(o.configOptions.front(), "--model=char");
  EXPECT_EQ(options("---\ndata: x\nsample: 1\nprompt: ''\n...\n").prompt, "");
  EXPECT_EQ(options("data: x\nsave: --odd\n").saveFolder, "--odd") << "a value may begin with dashes";
}

TEST_F(OptionsFile, mayBeJson) {
  const TrainOptions o = options("{\n\t\"data\": [\"a.txt\",\"b.txt\"],\n\t\"batch\":8,\"find-nan\":true,\"sample\":1,"
                                 "\"prompt\":\"\\ud83d\\ude00 \\u00e9\\/\",\"lr\":0.5}\n");
  EXPECT_EQ(o.dataFiles, (Arguments{"a.txt", "b.txt"}));
  EXPECT_EQ(o.batch, 8);
  EXPECT_TRUE(o.findNan);
  EXPECT_EQ(o.prompt, "\xF0\x9F\x98\x80 \xC3\xA9/");
  EXPECT_EQ(o.schedule.peak, 0.5);
  EXPECT_EQ(error("{\"data\": \"x\", \"prompt\": \"\\ud83d\"}"),
            "run.yaml:1:25: `prompt` holds half of a surrogate pair");
  EXPECT_EQ(options("{}", {"--data=x"}).batch, 32) << "a file may ask for nothing";
}

TEST_F(OptionsFile, theCommandLineWins) {
  const std::string file =
      "data: [a.txt, b.txt]\nbatch: 8\nfind-nan: true\nthreads: 3\nO: 0\nf: no-schedule\nsample: 1\nstop: x\n";
  const TrainOptions o = options(file, {"--data=c.txt", "--batch", "4", "--find-nan=false", "--threads=2", "-O3",
                                        "-fschedule", "--stop=y", "--stop=z"});
  EXPECT_EQ(o.dataFiles, Arguments{"c.txt"}) << "it replaces a list";
  EXPECT_EQ(o.stop, (Arguments{"y", "z"}));
  EXPECT_EQ(o.batch, 4);
  EXPECT_FALSE(o.findNan);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.level, 3);
  EXPECT_TRUE(o.passes.at("schedule"));
  EXPECT_EQ(options(file).batch, 8);
  EXPECT_EQ(options(file, {"--steps=3"}).dataFiles, (Arguments{"a.txt", "b.txt"}));
  EXPECT_EQ(error("batch: 0\n", {"--data=x", "--batch=4"}).substr(0, 28), "run.yaml:1:8: --batch: `0` i")
      << "a wrong value is one all the same";
  EXPECT_EQ(parse("batch: 8\n", {"--help"}).exitStatus, 0);
  EXPECT_EQ(error("data: x\n", {"--config=y"}), "--config is given twice, options are read from one file");
  EXPECT_EQ(error("data: x\n", {"book.txt"}).substr(0, 31), "unexpected argument `book.txt`:");
}

TEST_F(OptionsFile, valuesAreRefusedAtTheirPlace) {
  EXPECT_EQ(error("data: x\nbatch:   none\n"),
            "run.yaml:2:10: --batch: `none` is given, a whole number from 1 to 1099511627776 or auto is expected");
  EXPECT_EQ(error("data: x\nthreads: x\n"), "run.yaml:2:10: 'x' of --threads= is no number from 1 to 4096");
  EXPECT_EQ(error("data: x\nO: 7\n"),
            "run.yaml:2:4: unknown optimisation level '-O7' (one of -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast)");
  expectContains(error("data: x\nf: [simplify, no-]\n"), "run.yaml:2:15: '-fno-' names no pass");
  EXPECT_EQ(error("data: x\nlora-alpha: 2\nlora: 4\n"),
            "run.yaml:3:7: --lora needs --init FOLDER: the weights that an adapter is for");
  EXPECT_EQ(error("data: x\nheads: 3\n"), "width 128 is not a multiple of heads 3 (with the options of run.yaml)");
  EXPECT_EQ(error("batch: 8\n").substr(0, 25), "no data: --data FILE is n");
  EXPECT_EQ(error("data: x\nquiet: 1\n"), "run.yaml:2:8: `quiet` is `1`, true or false is expected");
  EXPECT_EQ(error("data: x\nquiet: 'true'\n"), "run.yaml:2:8: `quiet` is `true`, true or false is expected");
  EXPECT_EQ(error("data: x\nsave: true\n"),
            "run.yaml:2:7: `save` needs a value, true is none (in quotes it is a text)");
  EXPECT_EQ(options("data: x\nsave: 'true'\n").saveFolder, "true");
  EXPECT_EQ(error("data: x\nbatch: [1, 2]\n"), "run.yaml:2:1: `batch` has one value, a list is given");
  EXPECT_EQ(error("data: []\n"), "run.yaml:1:1: the list of `data` is empty, a value is expected");
  EXPECT_EQ(error("data:\n  - a\n  - [b]\n"),
            "run.yaml:3:5: an item of `data` is a list, a text or a number is expected");
  EXPECT_EQ(error("data: {a: b}\n"), "run.yaml:1:7: `data` is a map, a text or a number is expected");
  EXPECT_EQ(error("data: x\nsave:\nbatch: 3\n"), "run.yaml:2:1: `save` has no value");
  EXPECT_EQ(error("data: x\nsave: ~\n"), "run.yaml:2:7: `save` has no value");
  EXPECT_EQ(error("data: \"a\\0b\"\n"), "run.yaml:1:7: `data` holds a NUL character");
}

TEST_F(OptionsFile, keysAreNamesOfOptions) {
  const std::string rule = " (a key is the name of an option of --help, without its dashes)";
  EXPECT_EQ(error("data: x\nbathc: 3\n"), "run.yaml:2:1: unknown option `bathc`, did you mean `batch`?" + rule);
  EXPECT_EQ(error("eval_every: 3\n"), "run.yaml:1:1: unknown option `eval_every`, did you mean `eval-every`?" + rule);
  EXPECT_EQ(error("--batch: 3\n"), "run.yaml:1:1: unknown option `--batch`, did you mean `batch`?" + rule);
  EXPECT_EQ(error("thread: 3\n"), "run.yaml:1:1: unknown option `thread`, did you mean `threads`?" + rule);
  EXPECT_EQ(error("frobnicate: 3\n"), "run.yaml:1:1: unknown option `frobnicate`" + rule);
  EXPECT_EQ(error("fno-simplify: true\n"),
            "run.yaml:1:1: unknown option `fno-simplify`; a pass is switched off by `f: no-simplify`");
  EXPECT_EQ(error("q: true\n"), "run.yaml:1:1: unknown option `q`" + rule);
  EXPECT_EQ(error("'': 3\n"), "run.yaml:1:1: unknown option ``" + rule);
  for (const char *key : {"config", "help", "version"})
    EXPECT_EQ(error(std::string(key) + ": x\n"),
              "run.yaml:1:1: `" + std::string(key) + "` is of the command line alone, no option of a file");
  EXPECT_EQ(error("batch: 3\ndata: x\n\"batch\": 3\n"), "run.yaml:3:1: `batch` is there twice, first at run.yaml:1:1");
}

TEST_F(OptionsFile, damagedFilesAreOneErrorEach) {
  const std::string empty = "run.yaml: the file holds no options; lines such as `batch: 8` are expected";
  for (const char *content : {"", "\n", "# only a comment\n", "---\n", "---\n...\n", "~\n"})
    EXPECT_EQ(error(content), content == std::string("~\n") ? error("x") : empty) << content;
  const std::string map = "a map of options is expected, lines such as `batch: 8` (a space follows the colon)";
  EXPECT_EQ(error("batch:8\n"), "run.yaml:1:1: " + map);
  EXPECT_EQ(error("- batch\n"), "run.yaml:1:1: " + map);
  const std::string tab = "a tab indents this line, YAML indents by spaces";
  EXPECT_EQ(error("\tbatch: 8\n"), "run.yaml:1:1: " + tab);
  EXPECT_EQ(error("batch: 8\n\tmodel: char\n"), "run.yaml:2:1: " + tab);
  EXPECT_EQ(error("data:\n\t- a\n"), "run.yaml:2:1: " + tab);
  EXPECT_EQ(error("data:\n  \t- a\n"), "run.yaml:2:3: " + tab);
  EXPECT_EQ(options("data:\tx\n").dataFiles, Arguments{"x"}) << "between key and value a tab is a space";
  EXPECT_EQ(error("data: &d x\n"),
            "run.yaml:1:10: anchors (&NAME) are not read in a file of options (in quotes it is a text)");
  EXPECT_EQ(error("data: *d\n"),
            "run.yaml:1:1: aliases (*NAME) are not read in a file of options (in quotes it is a text)");
  EXPECT_EQ(error("data: !!str x\n"),
            "run.yaml:1:13: tags such as `!!str` are not read in a file of options (in quotes it is a text)");
  const std::string second =
      "a second document begins here, one map of options is expected (keys begin in the same column)";
  EXPECT_EQ(error("data: x\n---\nbatch: 8\n"), "run.yaml:3:1: " + second);
  EXPECT_EQ(error("  data: x\n batch: 8\n"), "run.yaml:2:2: " + second);
  EXPECT_EQ(error("{\"data\": \"x\"} {}"), "run.yaml:1:15: " + second);
  EXPECT_EQ(error("data: \"x\n"), "run.yaml:1:9: a text in quotes does not end");
  EXPECT_EQ(error("data: [x\n"), "run.yaml:1:9: a list in brackets does not end");
  EXPECT_EQ(error("{\"data\": 1\n"), "run.yaml:1:11: a comma or a closing bracket is expected here");
  EXPECT_EQ(error("data: @x\n"), "run.yaml:1:7: a text that begins with this character needs quotes");
  EXPECT_EQ(error("data: \"\\q\"\n"), "run.yaml:1:9: not valid YAML: Unrecognized escape code");
  const std::string line = "`option: value` is expected here; a value with a colon and a space in it needs quotes";
  EXPECT_EQ(error("data: x batch: 3\n"), "run.yaml:1:14: " + line);
  EXPECT_EQ(error("data: x\n  batch: 3\n"), "run.yaml:2:8: " + line);
  EXPECT_EQ(error("data: x\nsave: a\xFF\n"), "run.yaml:2:8: not UTF-8 text");
  EXPECT_EQ(error(std::string("data: x\nsave: a\0\n", 17)), "run.yaml:2:8: a control character, `\\x00`");
  EXPECT_EQ(error("batch: 3 #" + std::string(1 << 20, 'x')),
            "run.yaml: 1048586 bytes, a file of options has at most 1048576");
  EXPECT_EQ(options("data: x\r\nbatch: 3\r\n").batch, 3) << "lines may end as on Windows";
  EXPECT_EQ(options("\xEF\xBB\xBF"
                    "data: x\n")
                .dataFiles,
            Arguments{"x"})
      << "a mark of UTF-8 may stand first";
  EXPECT_EQ(parseTrainOptions({"--config", folder.path("absent")}, {}, readOptionsFile).exitStatus, 1);
  expectContains(parseTrainOptions({"--config", folder.path("")}, {}, readOptionsFile).message, folder.path(""));
  EXPECT_EQ(parseTrainOptions({"--config="}, {}, readOptionsFile).exitStatus, 2);
  EXPECT_EQ(parseTrainOptions({"--config=x"}).message, "--config: this program reads no options from files");
}

/// Files that are large or deep take no time: the limit is a megabyte.
TEST_F(OptionsFile, hugeFilesAreReadAtOnce) {
  std::string keys = "data: x\n", items = "data: [";
  for (int i = 0; keys.size() < 1000000; ++i)
    keys += "k" + std::to_string(i) + ": 1\n";
  while (items.size() < 1000000)
    items += "a,";
  const std::clock_t begin = std::clock(); // of this process's processors: other programs do not count
  expectContains(error(keys), "run.yaml:2:1: unknown option `k0`");
  EXPECT_EQ(options(items + "a]").dataFiles.size(), 499998u);
  expectContains(error("data: " + std::string(1000000, '[')), "run.yaml:1:8: an item of `data` is a list");
  expectContains(error(std::string(1000000, '{')), "run.yaml:1:2: a comma or");
  expectContains(error(std::string(1000000, '-')), "run.yaml:1:1: ");
  error(std::string(1000000, '?'));
  error("data: " + std::string(999999, '\''));
  EXPECT_EQ(options("data: x\n" + std::string(1000000, ' ') + "\n").dataFiles, Arguments{"x"});
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

TEST_F(OptionsFile, damagedCopiesAreErrorsOrOptions) {
  MemoryFile file;
  int taken = 0, refused = 0;
  for (const std::string original :
       {"model: char\ndata: [a.txt, \"b\\n.txt\"]\nbatch: 8 # x\nprompt: |\n  a\n  b\nstop:\n- x\n- 'y'\nquiet: true\n",
        "{\"data\": [\"a\", \"\\ud83d\\ude00\"], \"batch\": 8, \"quiet\": true}"}) {
    std::mt19937 random(static_cast<uint32_t>(original.size()));
    for (int round = test::mutationRounds(2000); round > 0; --round) {
      const std::string damaged = file.write(test::mutated(original, random));
      const ParsedOptions result = parseTrainOptions({"--config", damaged}, {}, readOptionsFile);
      ++(result.options ? taken : refused);
      EXPECT_TRUE(result.options || !result.message.empty());
    }
  }
  std::printf("%d taken, %d refused\n", taken, refused);
  EXPECT_GT(taken, 100);
  EXPECT_GT(refused, 100);
}

/// Signs of YAML in any order, which lead the parser to nodes that it gives no place.
TEST_F(OptionsFile, signsInAnyOrderAreErrorsOrOptions) {
  const Arguments signs = {"- ",  "? ",  ": ",  "[",     "]",     "{",     "}",  "|", "|2-\n", ">",
                           "&a ", "*a ", "!t ", "%Y ",   "---\n", "...\n", "\"", "'", "#",     "\n",
                           "\t",  "  ",  "\\x", "\\u12", "@",     "`",     ",",  "~", "a: ",   "\xEF\xBB\xBF"};
  MemoryFile file;
  std::mt19937 random(7);
  for (int round = test::mutationRounds(5000); round > 0; --round) {
    std::string text;
    for (size_t left = random() % 30 + 1; left > 0; --left)
      text += signs[random() % signs.size()];
    const ParsedOptions result = parseTrainOptions({"--config", file.write(text)}, {}, readOptionsFile);
    EXPECT_TRUE(result.options || !result.message.empty()) << text;
  }
}

} // namespace
} // namespace tcc::models
