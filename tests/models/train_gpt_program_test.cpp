// train_gpt as a program: signals, streams that cannot be written, outputs that are inputs.
#include "models/checkpoint.h"
#include "test_files.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/wait.h>
#include <thread>

namespace tcc::models {
namespace {

class TrainGpt : public testing::Test {
protected:
  TrainGpt() { data = folder.write("data.txt", easyText(400)); }

  /// A small model on the text.
  std::string command(const std::string &more) const {
    return "'" TRAIN_GPT_PROGRAM "' --data '" + data +
           "' --threads=1 --layers=1 --heads=2 --width=16 --seq=16 --batch=4 " + more;
  }

  /// Runs a shell command in the folder; its status, and its messages in `said`.
  int shell(const std::string &text) {
    const std::string inFolder = "cd '" + folder.path("") + "' && " + text;
    const int status = std::system((inFolder + (text.find("2>") == std::string::npos ? " 2>err" : "")).c_str());
    said = readAll(folder.path("err"));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  /// Starts a run of many steps, sends `signals` once its log shows steps, and waits; the status as wait() gives it.
  int interrupted(const std::string &more, const std::vector<int> &signals) {
    const std::string log = folder.path("log.jsonl");
    std::filesystem::remove(log);
    const pid_t child = ::fork();
    if (child == 0) {
      const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC), err = ::creat(folder.path("err").c_str(), 0600);
      ::dup2(null, STDOUT_FILENO);
      ::dup2(err, STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", ("exec " + command("--steps=100000000 --json=" + log + " " + more)).c_str(),
              nullptr);
      ::_exit(127);
    }
    for (int i = 0; i < 6000 && readAll(log).size() < 200; ++i) // a busy machine compiles for half a minute
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int signal : signals) {
      ::kill(child, signal);
      const auto heard = [&] { return readAll(folder.path("err")).find("ending after") != std::string::npos; };
      for (int i = 0; i < 600 && !heard(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    said = readAll(folder.path("err"));
    return status;
  }

  TemporaryFolder folder;
  std::string data, said;
};

TEST_F(TrainGpt, aSignalEndsTheRunAfterTheStep) {
  for (int signal : {SIGINT, SIGTERM}) {
    const int status = interrupted("--sample=4 --save " + folder.path("saved"), {signal});
    ASSERT_TRUE(WIFEXITED(status)) << said;
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    expectContains(said, "ending after this step");
    expectContains(said, "trained baby for");
    expectContains(said, "wrote the weights to ");
    expectContains(said, "sample:");
    std::istringstream lines(readAll(folder.path("log.jsonl")));
    std::string line;
    int64_t steps = 0;
    nlohmann::json last;
    for (; std::getline(lines, line); ++steps)
      last = nlohmann::json::parse(line);
    EXPECT_GT(steps, 1);
    EXPECT_TRUE(last.contains("loss_last")) << "the summary is the last line";
    EXPECT_NO_THROW(ModelFolder(folder.path("saved")));
    std::filesystem::remove_all(folder.path("saved"));
  }
}

TEST_F(TrainGpt, theSecondSignalEndsAtOnce) {
  // The sample would take hours.
  const int status = interrupted("--sample=10000000", {SIGINT, SIGTERM});
  ASSERT_TRUE(WIFSIGNALED(status)) << said;
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST_F(TrainGpt, warnsOfATextUnderAVocabularyOfTokens) {
  EXPECT_EQ(shell(command("--steps=1 --quiet --vocab=50257")), 0);
  EXPECT_EQ(said, "warning: " + data +
                      " is read as text, whose bytes are taken as tokens, but the model has a vocabulary "
                      "of 50257; a .bin file of its tokens is expected, or --vocab=256\n");
  EXPECT_EQ(shell(command("--steps=1 --quiet")), 0);
  EXPECT_EQ(said, "");
}

TEST_F(TrainGpt, aWrongLevelOfTheCpuIsAWrongCommand) {
  EXPECT_EQ(shell("TCC_CPU=avx2 " + command("--estimate")), 2);
  EXPECT_EQ(said, "error: TCC_CPU=avx2 is no level of x86-64; x86-64, x86-64-v2, x86-64-v3, x86-64-v4 and native are "
                  "known\n");
  EXPECT_EQ(shell("TCC_CPU=avx2 '" TRAIN_GPT_PROGRAM "' --help"), 0);
}

TEST_F(TrainGpt, wrongFlagsAndFilesAreSaidBeforeTheDataIsRead) {
  for (const auto &[options, status, message] :
       {std::tuple("--steps=0 -fsimplfy", 2, "unknown option '-fsimplfy'; did you mean '-fsimplify'?"),
        {"--steps=0 -fdump-ir=all", 2, "unknown option '-fdump-ir=all'"},
        {"--steps=0 -march=pentium9", 2, "-march=pentium9: unknown CPU 'pentium9'"},
        {"--estimate -march=pentium9", 2, "-march=pentium9: unknown CPU 'pentium9'"},
        {"--steps=1 --step nofile.so", 1, "--step nofile.so: there is no such file"},
        {"--steps=1 --tokenizer nofolder", 1, "--tokenizer nofolder: there is no such folder"},
        {"--steps=1 --tuning=/proc/x", 1, "--tuning: cannot write `/proc/x`"}}) {
    EXPECT_EQ(shell(command(options)), status) << options;
    EXPECT_EQ(said.rfind("error: ", 0), 0u) << said;
    expectContains(said, message);
    EXPECT_EQ(said.find("\ndata "), std::string::npos) << said;
  }
  EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --init=x --generate=2 --ranks=2"), 2);
  expectContains(said, "--ranks cannot be given with --generate");
  EXPECT_EQ(shell(command("--steps=1 --quiet --reduce=fast")), 0);
  EXPECT_EQ(said.rfind("warning: --reduce=fast changes nothing here", 0), 0u) << said;
  EXPECT_EQ(shell(command("--steps=1 --quiet -fmemory-limit=6")), 1);
  expectContains(said, "its memory limit is 6 bytes");
}

/// Without instructions for a type its matmuls take as long as those of f32, and every figure says so.
TEST_F(TrainGpt, aTypeThatGainsNothingIsSaidToGainNothing) {
  const std::string environment = "TCC_CPU=x86-64 XDG_CACHE_HOME='" + folder.path("cache") + "' ";
  const auto tokensPerSecond = [&](const std::string &type) {
    EXPECT_EQ(shell(environment + command("--quiet --width=256 --seq=128 --estimate --dtype=" + type + " >out")), 0);
    const std::string out = readAll(folder.path("out")), before = "at most ";
    const size_t at = out.rfind(before);
    return at == std::string::npos ? 0 : std::stod(out.substr(at + before.size()));
  };
  const double f32 = tokensPerSecond("f32");
  EXPECT_EQ(said, "");
  EXPECT_GT(f32, 0);
  const double bf16 = tokensPerSecond("bf16");
  EXPECT_EQ(said, "warning: --dtype=bf16 gains no speed: cpu has no instructions that multiply bf16, its products are "
                  "widened to f32\n");
  EXPECT_LT(bf16, 2 * f32) << "or 0 where nothing is known";
  tokensPerSecond("f16");
  expectContains(said, "warning: --dtype=f16 gains no speed");
  EXPECT_EQ(shell(environment + command("--estimate --dtype=auto >out")), 0);
  expectContains(said, "--dtype=auto is f32, since cpu multiplies neither bf16 nor f16 faster\n");
  EXPECT_EQ(said.find("warning"), std::string::npos) << said;
  expectContains(readAll(folder.path("out")), "products in f32\n");
}

TEST_F(TrainGpt, whatCannotBeWrittenIsRefusedBeforeTheRun) {
  std::filesystem::create_directory(folder.path("there"));
  for (const std::string option : {"--profile", "--plot", "--emit-graph", "--dump-grads", "-foptimization-record-file"})
    for (const auto &[path, why] :
         {std::pair("missing/out", "No such file or directory"), std::pair("there", "Is a directory")}) {
      EXPECT_EQ(shell(command("--steps=1000000 --json=log --save=saved --checkpoint=kept " + option + "=" + path)), 1);
      EXPECT_EQ(said, "error: " + option + ": cannot write `" + path + "`: " + why + "\n");
    }
  for (const char *made : {"log", "saved", "kept", "missing"})
    EXPECT_FALSE(std::filesystem::exists(folder.path(made))) << made;
  EXPECT_EQ(shell(command("--steps=1 --quiet --plot=/dev/null --profile=profile")), 0) << said;
  EXPECT_TRUE(std::filesystem::exists(folder.path("profile")));

  EXPECT_EQ(shell(command("--steps=1 --plot=loss.png")), 2);
  EXPECT_EQ(said, "error: --plot loss.png: the figure is SVG, a name such as loss.svg is expected\n");
}

/// The commands under "examples:" of --help.
std::vector<std::string> examplesOf(const std::string &help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  train_gpt "))
      commands.push_back(line.substr(2, line.find("   ", 2) - 2)); // what it does stands after spaces
  return commands;
}

/// Each with small data and a small model in place of a book and GPT-2, one after the other as a reader tries them.
TEST_F(TrainGpt, everyExampleOfHelpRunsInItsOrder) {
  const std::string samples = std::filesystem::absolute("tests/models/tokenizer_samples/gpt2").string();
  const std::string environment = "XDG_CACHE_HOME='" + folder.path("cache") + "' ";
  std::filesystem::copy(data, folder.path("book.txt"));
  std::filesystem::copy(data, folder.path("more.txt"));
  folder.write("run.yaml", "data: book.txt\nbatch: 16\n");
  std::string tokens;
  for (int i = 0; i < 20000; ++i)
    tokens += {char(i % 83), char(i % 3 == 0)}; // below 340
  folder.write("train.bin", tokens);
  ASSERT_EQ(shell(environment + command("--seq=256 --steps=1 -q --tokenizer='" + samples + "' --save=gpt2")), 0)
      << said;

  ASSERT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --help >help"), 0);
  const std::vector<std::string> examples = examplesOf(readAll(folder.path("help")));
  EXPECT_GT(examples.size(), 12u);
  for (const std::string &example : examples) {
    const auto has = [&](const char *flag) { return example.find(flag) != std::string::npos; };
    std::string small = " --threads=1";
    if (!has("--init"))
      small += " --layers=1 --heads=2 --width=16 --seq=16 --batch=2";
    if (has("--estimate"))
      small += " --memory=0.1";
    else if (!has("--checkpoint=") &&
             !has("--generate")) // the default length makes the step that another example names
      small += " --steps=3";
    const std::string run = environment + "'" TRAIN_GPT_PROGRAM "'" + example.substr(9) + small;
    EXPECT_EQ(shell(run + " >out"), 0) << example << "\n" << said;
    if (has("--checkpoint=")) {
      EXPECT_EQ(shell(run + " --resume --steps=1003"), 0) << said;
      expectContains(said, "going on after step 999 of run");
    }
    if (has("--generate")) {
      EXPECT_TRUE(readAll(folder.path("out")).starts_with("In the beginning")) << readAll(folder.path("out"));
    }
  }
  const std::string log = readAll(folder.path("log.jsonl"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 4) << "three steps and the summary";
  EXPECT_FALSE(readAll(folder.path("gpt2/tokenizer.json")).empty());
  EXPECT_EQ(readAll(folder.path("tuned/tokenizer.json")), readAll(folder.path("gpt2/tokenizer.json")));
}

TEST_F(TrainGpt, aRunThatLearnsItsTokenizerIsResumedByTheSameCommand) {
  const std::string environment = "XDG_CACHE_HOME='" + folder.path("cache") + "' ";
  const std::string again = "--tokenizer=words --train-tokenizer=300 --checkpoint=kept --steps=2 -q ";
  ASSERT_EQ(shell(environment + command(again)), 0) << said;
  EXPECT_EQ(shell(environment + command(again + "--resume --steps=3")), 0) << said;
  EXPECT_EQ(readAll(folder.path("kept/step-000000003/tokenizer.json")), readAll(folder.path("words/tokenizer.json")));
}

TEST_F(TrainGpt, optionsOfAFileAreThoseOfTheCommandLine) {
  const std::string sizes = "threads: 1\nlayers: 1\nheads: 2\nwidth: 16\nseq: 16\nbatch: 4\n";
  folder.write("run.yaml", "data: data.txt\n" + sizes + "steps: 4\nschedule: constant\nlr: 0.01\nsave: byFile\n");
  ASSERT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --config run.yaml --json=log"), 0) << said;
  expectContains(said, "options of run.yaml: --data=data.txt --threads=1 --layers=1");
  expectContains(readAll(folder.path("log")), "\"config\":\"run.yaml\"");
  ASSERT_EQ(shell(command("--steps=4 --schedule=constant --lr=0.01 -q --save=byLine")), 0) << said;
  EXPECT_EQ(readAll(folder.path("byFile/model.safetensors")), readAll(folder.path("byLine/model.safetensors")));

  // The same command goes on; another file is said.
  folder.write("kept.json",
               "{\"data\": \"data.txt\", \"threads\": 1, \"layers\": 1, \"heads\": 2, \"width\": 16, "
               "\"seq\": 16, \"batch\": 4, \"schedule\": \"constant\", \"lr\": 0.01, \"checkpoint\": \"kept\"}");
  std::filesystem::copy(folder.path("kept.json"), folder.path("other.json"));
  const std::string kept = "'" TRAIN_GPT_PROGRAM "' --config kept.json --steps=";
  ASSERT_EQ(shell(kept + "2"), 0) << said;
  expectContains(readAll(folder.path("kept/step-000000002/run.json")), "\"--config\": \"kept.json\"");
  ASSERT_EQ(shell(kept + "3 --resume"), 0) << said;
  EXPECT_EQ(said.find("--config is"), std::string::npos) << said;
  ASSERT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --config other.json --steps=4 --resume --save=parts"), 0) << said;
  expectContains(said, "note: --config is other.json from here on, the checkpoint's run had kept.json\n");
  EXPECT_EQ(readAll(folder.path("parts/model.safetensors")), readAll(folder.path("byLine/model.safetensors")));

  // What it writes is not what it reads.
  EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --config run.yaml --json run.yaml"), 1);
  expectContains(said, "error: --json run.yaml is the same file as --config run.yaml, which is read");
  EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --config absent.yaml"), 1);
  EXPECT_EQ(said, "error: absent.yaml: cannot open: No such file or directory\n");
  folder.write("bad.yaml", "data: data.txt\nbathc: 3\n");
  EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --config bad.yaml"), 2);
  expectContains(said, "error: bad.yaml:2:1: unknown option `bathc`, did you mean `batch`?");
}

TEST_F(TrainGpt, aResumeThatFailsMakesNothing) {
  const auto before = std::distance(std::filesystem::directory_iterator(folder.path("")), {});
  EXPECT_EQ(
      shell(command("--steps=2 --resume --checkpoint=kept --save=saved --json=log --plot=plot --tensorboard=board "
                    "--tokenizer=words --train-tokenizer=300")),
      1);
  EXPECT_EQ(said, "error: kept: there is no checkpoint to resume from\n");
  std::filesystem::remove(folder.path("err"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("")), {}), before);
}

/// Updates are left out from the second step on: the first one has made the weights infinitely large.
TEST_F(TrainGpt, aRunThatDivergesEnds) {
  const std::string diverging = "--steps=60 --warmup=0 --schedule=constant --lr=1e38 --eval-every=1000 --json=log ";
  const auto steps = [&] {
    const std::string log = readAll(folder.path("log"));
    return std::count(log.begin(), log.end(), '\n') - 1; // and the summary
  };
  EXPECT_EQ(shell(command(diverging + "--quiet --save=saved --checkpoint=kept --checkpoint-every=1")), 1);
  EXPECT_EQ(steps(), 21);
  expectContains(said, "error: the run has diverged: loss or gradient norm of 20 steps in a row, the last of them step "
                       "20, was not finite, so their updates were left out (--max-skipped=20)\n  first not finite: ");
  expectContains(said, "values are not finite, the first of them, value ");
  expectContains(said, "nothing was saved");
  EXPECT_TRUE(!std::filesystem::exists(folder.path("saved")) || std::filesystem::is_empty(folder.path("saved")));

  EXPECT_EQ(shell(command(diverging + "--max-skipped=3 --find-nan --sample=4")), 1);
  EXPECT_EQ(steps(), 4);
  expectContains(said, "the last of them step 3");
  EXPECT_EQ(said.find("--find-nan names"), std::string::npos) << said;
  EXPECT_EQ(said.find("sample:"), std::string::npos) << said;
  EXPECT_EQ(said.find("what to try next"), std::string::npos) << said;

  EXPECT_EQ(shell(command(diverging + "--max-skipped=0")), 0);
  EXPECT_EQ(steps(), 60);
}

TEST_F(TrainGpt, noOutputIsAFileThatIsReadOrAnotherOutput) {
  const std::string before = readAll(data);
  std::filesystem::create_symlink(data, folder.path("link"));
  for (const std::string option : {"--json", "--emit-graph", "--dump-grads", "--save"})
    for (const std::string &path : {data, folder.path("link")}) {
      EXPECT_EQ(shell(command("--steps=1 " + option + " '" + path + "'")), 1);
      expectContains(said, "error: " + option + " " + path + " is the same file as --data " + data + ", which is read");
      EXPECT_EQ(readAll(data), before);
    }
  EXPECT_EQ(shell(command("--steps=1 --json=out --emit-graph=out")), 1);
  expectContains(said, "--emit-graph out is the same file as --json out");
  EXPECT_EQ(shell(command("--steps=1 --save=saved --dump-grads=saved/model.safetensors")), 1);
  expectContains(said, "saved/model.safetensors of --save is the same file as --dump-grads");
  EXPECT_FALSE(std::filesystem::exists(folder.path("saved"))) << "checked before anything is made";
  EXPECT_EQ(shell(command("--steps=1 --quiet --save=saved")), 0) << said;
  const std::string weights = readAll(folder.path("saved/model.safetensors"));
  const std::string again = "'" TRAIN_GPT_PROGRAM "' --data '" + data + "' --init saved --batch=4 --steps=1 ";
  EXPECT_EQ(shell(again + "--save=saved/"), 1);
  expectContains(said, "which is read");
  EXPECT_EQ(shell(again + "--json=saved/config.json"), 1);
  EXPECT_EQ(readAll(folder.path("saved/model.safetensors")), weights);
  EXPECT_EQ(shell(command("--steps=1 --json=log >log 2>err")), 1);
  expectContains(said, "--json log is the same file as stdout");
}

TEST_F(TrainGpt, trainsAnAdapterBesideFrozenWeights) {
  ASSERT_EQ(shell(command("--steps=3 --save=base -q")), 0) << said;
  const std::string weights = readAll(folder.path("base/model.safetensors"));
  const auto adapt = [&](const std::string &more) {
    return shell("'" TRAIN_GPT_PROGRAM "' --data '" + data + "' --threads=1 --batch=4 --init=base " + more);
  };
  // Stopped in the middle and resumed, it ends with the bytes of a run that was not.
  ASSERT_EQ(adapt("--lora=2 --steps=4 --schedule=constant --save=whole"), 0) << said;
  ASSERT_EQ(adapt("--lora=2 --steps=2 --schedule=constant --checkpoint=kept"), 0) << said;
  ASSERT_EQ(adapt("--lora=2 --steps=4 --schedule=constant --checkpoint=kept --resume --save=parts"), 0) << said;
  const std::string adapter = readAll(folder.path("whole/adapter_model.safetensors"));
  EXPECT_GT(adapter.size(), 1000u);
  EXPECT_EQ(readAll(folder.path("parts/adapter_model.safetensors")), adapter);
  EXPECT_EQ(readAll(folder.path("base/model.safetensors")), weights);
  EXPECT_FALSE(std::filesystem::exists(folder.path("whole/model.safetensors")));
  // An adapter changes what is generated.
  ASSERT_EQ(adapt("--lora=2 --steps=300 --lr=0.02 --save=more -q"), 0) << said;
  const auto generated = [&](const std::string &more) {
    EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --threads=1 --init=base --generate=40 --temperature=0 --prompt=the " +
                    more + " >out"),
              0)
        << said;
    return readAll(folder.path("out"));
  };
  EXPECT_NE(generated("--adapter=more"), generated(""));
  // What does not fit is said, and nothing is written.
  EXPECT_EQ(adapt("--lora=3 --adapter=whole --steps=1 --save=bad"), 1);
  EXPECT_NE(said.find("--lora=3, but the adapter of whole has rank 2"), std::string::npos) << said;
  EXPECT_EQ(adapt("--lora=3 --steps=4 --checkpoint=kept --resume"), 1);
  EXPECT_NE(said.find("adapter is `rank 2"), std::string::npos) << said;
  EXPECT_EQ(adapt("--adapter=whole --steps=1 --save=whole"), 1);
  EXPECT_NE(said.find("of --adapter"), std::string::npos) << said;
  EXPECT_EQ(shell(command("--lora=2 --steps=1")), 2);
  EXPECT_FALSE(std::filesystem::exists(folder.path("bad")));
}

TEST_F(TrainGpt, aLogOrAStdoutThatCannotBeWrittenCostsNoTraining) {
  EXPECT_EQ(shell(command("--steps=3 --json=/dev/full --save=saved")), 1);
  EXPECT_EQ(said.find("cannot write the log"), said.rfind("cannot write the log")) << "said once";
  expectContains(said, "cannot write the log: No space left on device; training goes on without it");
  EXPECT_NO_THROW(ModelFolder(folder.path("saved")));
  std::filesystem::remove_all(folder.path("saved"));
  // A table of which not even the first line can be written is an error before training.
  EXPECT_EQ(shell(command("--steps=3 --csv=/dev/full --save=saved")), 1);
  expectContains(said, "--csv /dev/full: cannot write the log: No space left on device");
  EXPECT_FALSE(std::filesystem::exists(folder.path("saved/model.safetensors")));

  for (const std::string closed : {">/dev/full", ">&-"}) {
    EXPECT_EQ(shell(command("--steps=2 --quiet --sample=4 --save=saved " + closed + " 2>err")), 1) << closed;
    expectContains(said, "error: cannot write to stdout: ");
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
    EXPECT_NO_THROW(ModelFolder(folder.path("saved"))) << closed;
    std::filesystem::remove_all(folder.path("saved"));
  }
  shell("{ " + command("--steps=200 --json=- --save=saved 2>err") + "; echo $? >status; } | true");
  EXPECT_EQ(readAll(folder.path("status")), "1\n") << said;
  expectContains(said, "warning: stdout: cannot write the log: Broken pipe");
  EXPECT_NO_THROW(ModelFolder(folder.path("saved"))) << "a reader that is gone ends no training";
  std::filesystem::remove_all(folder.path("saved"));
  EXPECT_EQ(shell("'" TRAIN_GPT_PROGRAM "' --help >/dev/full 2>err"), 1);
  EXPECT_EQ(said, "error: cannot write to stdout: No space left on device\n");
  EXPECT_EQ(shell(command("--steps=2 --quiet --save=saved 2>&-")), 0) << "stderr is closed";
  EXPECT_NO_THROW(ModelFolder(folder.path("saved")));
}

} // namespace
} // namespace tcc::models
