#include "models/options.h"
#include "test_files.h"

namespace tcc::models {
namespace {

using Arguments = std::vector<std::string>;

TrainOptions parsed(Arguments arguments) {
  arguments.insert(arguments.begin(), {"--data", "a.txt"});
  ParsedOptions result = parseTrainOptions(arguments);
  EXPECT_TRUE(result.options) << result.message;
  return result.options.value_or(TrainOptions{});
}

std::string usageError(Arguments arguments, bool withData = true) {
  if (withData)
    arguments.insert(arguments.begin(), {"--data", "a.txt"});
  ParsedOptions result = parseTrainOptions(arguments);
  EXPECT_FALSE(result.options);
  EXPECT_EQ(result.exitStatus, 2);
  EXPECT_EQ(result.message.find('\n'), std::string::npos) << result.message;
  return result.message;
}

TEST(Options, DevicesAreOfTheKindsThatTheProgramHas) {
  const auto message = [](const std::string &device, const std::vector<std::string> &kinds) {
    return parseTrainOptions({"--data", "a.txt", "--device=" + device}, kinds).message;
  };
  for (const char *device : {"auto", "cpu", "cuda", "cuda:0", "cuda:12", "npu:3"})
    EXPECT_EQ(message(device, {"cuda", "npu"}), "");
  for (const char *device : {"gpu", "cpu:0", "cuda:", "cuda:N", "cuda:-1", "cuda:1x", "npu"})
    EXPECT_EQ(message(device, {"cuda"}),
              "--device: `" + std::string(device) + "` is given, one of auto, cpu, cuda, cuda:N is expected");
  EXPECT_EQ(message("cuda", {}), "--device: `cuda` is given, one of auto, cpu is expected");
  const std::string help = parseTrainOptions({"--help"}, {"cuda"}).message;
  EXPECT_NE(help.find("auto (a GPU that works, else the CPU), cpu, cuda or cuda:N; auto"), std::string::npos) << help;
}

TEST(Options, defaultsFollowThePreset) {
  TrainOptions options = parsed({});
  EXPECT_EQ(options.model, "baby");
  EXPECT_TRUE(options.config == *gpt2Preset("baby"));
  EXPECT_EQ(options.config.positions(), 64);
  EXPECT_EQ(options.level, 2);
  EXPECT_EQ(options.order, Order::Random);
  EXPECT_EQ(options.schedule.kind, ScheduleKind::Cosine);
  EXPECT_EQ(options.schedule.length.steps, 1000);
  EXPECT_EQ(options.schedule.warmup, 100);
  EXPECT_FALSE(options.schedule.length.seconds);
  EXPECT_EQ(options.products, runtime::DType::f32);
  EXPECT_EQ(parsed({"--model", "char"}).batch, 16);
  EXPECT_EQ(parsed({"--model", "gpt2"}).batch, 4);
  EXPECT_FALSE(parsed({"--model", "gpt2"}).largestBatch);
  EXPECT_TRUE(parsed({"--batch=auto"}).largestBatch);
  EXPECT_EQ(parsed({"--memory-limit=6GiB"}).memoryLimit, int64_t{6} << 30);
  EXPECT_TRUE(parsed({"--model", "gpt2"}).config == *gpt2Preset("gpt2"));
}

TEST(Options, readsEveryOption) {
  TrainOptions o = parsed({"--model=char",
                           "--layers=2",
                           "--heads",
                           "8",
                           "--width=64",
                           "--vocab=300",
                           "--batch=3",
                           "--seq=32",
                           "--steps=7",
                           "--lr=1e-3",
                           "--schedule",
                           "trapezoid",
                           "--warmup=5",
                           "--seed=9",
                           "--order=sequential",
                           "--threads=2",
                           "-O3",
                           "-fno-schedule",
                           "-fsimplify",
                           "--json=log",
                           "--sample=40",
                           "--prompt=In the",
                           "--emit-graph=g",
                           "--dump-grads=d",
                           "--save=s",
                           "--minutes=0.5",
                           "--dtype=bf16",
                           "--quiet",
                           "--temperature=0",
                           "--top-k=5",
                           "--top-p=0.5",
                           "--weight-decay=0",
                           "--beta1=0.8",
                           "--beta2=0.99",
                           "--clip=0",
                           "--min-lr=1e-5",
                           "--accumulate=4",
                           "--eval-every=10",
                           "--eval-share=0.2",
                           "--eval-data=v",
                           "--eval-batches=7",
                           "--checkpoint=ck",
                           "--checkpoint-every=5",
                           "--keep=2",
                           "--resume"});
  EXPECT_TRUE(o.config == (Gpt2Config{.layers = 2, .heads = 8, .width = 64, .sequence = 32, .vocab = 300}));
  EXPECT_EQ(o.batch, 3);
  EXPECT_EQ(o.sequence, 32);
  EXPECT_EQ(o.schedule.length.steps, 7);
  EXPECT_EQ(o.schedule.length.seconds, 30);
  EXPECT_EQ(o.schedule.peak, 1e-3);
  EXPECT_EQ(o.schedule.kind, ScheduleKind::Trapezoid);
  EXPECT_EQ(o.schedule.warmup, 5);
  EXPECT_EQ(o.seed, 9u);
  EXPECT_EQ(o.order, Order::Sequential);
  EXPECT_EQ(o.threads, 2);
  EXPECT_EQ(o.level, 3);
  EXPECT_EQ(o.passes, (std::map<std::string, bool>{{"schedule", false}, {"simplify", true}}));
  EXPECT_EQ(o.jsonFile, "log");
  EXPECT_EQ(o.sampleTokens, 40);
  EXPECT_EQ(o.prompt, "In the");
  EXPECT_EQ(o.emitGraph, "g");
  EXPECT_EQ(o.dumpGrads, "d");
  EXPECT_EQ(o.saveFolder, "s");
  EXPECT_EQ(o.products, runtime::DType::bf16);
  EXPECT_EQ(o.temperature, 0);
  EXPECT_EQ(o.topK, 5);
  EXPECT_TRUE(o.quiet);
  EXPECT_EQ(o.topP, 0.5);
  EXPECT_EQ(o.weightDecay, 0);
  EXPECT_EQ(o.beta1, 0.8);
  EXPECT_EQ(o.beta2, 0.99);
  EXPECT_EQ(o.clipNorm, 0);
  EXPECT_EQ(o.schedule.floor, 1e-5);
  EXPECT_EQ(o.accumulate, 4);
  EXPECT_EQ(o.evalEvery, 10);
  EXPECT_EQ(o.evalShare, 0.2);
  EXPECT_EQ(o.evalFile, "v");
  EXPECT_EQ(o.evalBatches, 7);
  EXPECT_EQ(o.checkpointFolder, "ck");
  EXPECT_EQ(o.checkpointEvery, 5);
  EXPECT_EQ(o.keepCheckpoints, 2);
  EXPECT_TRUE(o.resume);
}

TEST(Options, everyLevel) {
  for (int level = 0; level <= 3; ++level)
    EXPECT_EQ(parsed({"-O" + std::to_string(level)}).level, level);
}

TEST(Options, theLastOneCounts) {
  EXPECT_EQ(parsed({"--batch=3", "--batch", "5"}).batch, 5);
  EXPECT_EQ(parsed({"-O1", "-O3"}).level, 3);
  EXPECT_EQ(parsed({"-fa", "-fno-b", "-fno-a"}).passes, (std::map<std::string, bool>{{"a", false}, {"b", false}}));
}

TEST(Options, minutesAloneHaveNoSteps) {
  TrainOptions options = parsed({"--minutes=1"});
  EXPECT_FALSE(options.schedule.length.steps);
  EXPECT_EQ(options.schedule.length.seconds, 60);
  EXPECT_EQ(options.schedule.warmup, 100);
}

TEST(Options, initTakesSizesFromTheFolder) {
  TrainOptions options = parsed({"--init", "gpt2/", "--seq", "16"});
  EXPECT_EQ(options.initFolder, "gpt2/");
  EXPECT_EQ(options.model, "gpt2");
  EXPECT_EQ(parsed({"--init", "../tuned/on-books"}).model, "on-books");
  EXPECT_EQ(parsed({"--init=run/step-000001000", "--model=char"}).model, "run/step-000001000");
  EXPECT_EQ(parsed({"--init", "/"}).model, "/");
  EXPECT_EQ(options.sequence, 16);
  EXPECT_EQ(options.schedule.peak, 3e-4);
  EXPECT_EQ(parsed({"--schedule=constant"}).schedule.warmup, 0);
  expectContains(usageError({"--init", "x", "--width", "8"}), "cannot be given with --init");
}

TEST(Options, generationNeedsWeightsAndNoData) {
  const ParsedOptions parsed = parseTrainOptions({"--init=f", "--generate=9", "--stop=a", "--stop", "b c"});
  ASSERT_TRUE(parsed.options) << parsed.message;
  EXPECT_EQ(parsed.options->generateTokens, 9);
  EXPECT_TRUE(parsed.options->cachesKeys);
  EXPECT_FALSE(parseTrainOptions({"--init=f", "--generate=9", "--no-kv-cache"}).options->cachesKeys);
  EXPECT_EQ(parsed.options->stop, (std::vector<std::string>{"a", "b c"}));
  expectContains(usageError({"--generate=9"}, false), "--generate needs --init FOLDER");
  expectContains(usageError({"--init=f", "--generate=9"}), "--data cannot be given with --generate");
}

TEST(Options, sizesOfALlama) {
  const auto llama = [](Arguments more) {
    more.insert(more.begin(), "--model=llama-baby");
    return std::get<LlamaConfig>(parsed(more).config.kind);
  };
  EXPECT_TRUE(llama({}) == LlamaConfig{});
  const LlamaConfig other = llama({"--width=60", "--heads=6", "--kv-heads=3", "--layers=2", "--seq=16"});
  EXPECT_EQ(other.headSize, 10);
  EXPECT_EQ(other.inner, 160);
  EXPECT_EQ(other.keyValueHeads, 3);
  EXPECT_EQ(other.sequence, 16);
  EXPECT_EQ(llama({"--heads=1"}).keyValueHeads, 1);
  expectContains(usageError({"--model=llama-baby", "--kv-heads=3"}),
                 "heads 4 is not a multiple of key and value heads 3");
  expectContains(usageError({"--kv-heads=1"}), "--kv-heads is of the Llama family");
  expectContains(usageError({"--model=modern-124m", "--dropout=0.1"}), "--dropout is of GPT-2 and the Llama family");
  EXPECT_EQ(parsed({"--model=llama-baby", "--dropout=0.1"}).config.dropout(), (DropoutRates{.attention = 0.1}));
  EXPECT_EQ(parsed({"--dropout=0.1"}).dropout, 0.1);
}

TEST(Options, whatBelongsTogether) {
  expectContains(usageError({"--resume"}), "--resume needs --checkpoint FOLDER");
  expectContains(usageError({"--checkpoint-every=5"}), "--checkpoint-every needs --checkpoint FOLDER");
  expectContains(usageError({"--eval-data=v"}), "--eval-data needs --eval-every N");
  expectContains(usageError({"--schedule=constant", "--min-lr=0"}),
                 "--min-lr cannot be given with --schedule=constant");
  expectContains(usageError({"--lr=1e-4", "--min-lr=1e-3"}), "--min-lr=0.001 is above the learning rate 0.0001");
  EXPECT_EQ(parsed({"--schedule=trapezoid"}).schedule.kind, ScheduleKind::Trapezoid);
  EXPECT_EQ(parsed({"--schedule=trapezoid"}).schedule.warmup, 100);
}

TEST(Options, whatDoesNothingAloneIsRefused) {
  const std::pair<Arguments, const char *> cases[] = {
      {{"--lora=4"}, "--lora needs --init FOLDER: the weights that an adapter is for"},
      {{"--lora-alpha=4", "--init=f"}, "--lora-alpha needs --lora RANK"},
      {{"--dump-tokens=f"}, "--dump-tokens needs --tokenizer FOLDER"},
      {{"--train-tokenizer=300"}, "--train-tokenizer needs --tokenizer FOLDER, where the tokenizer is kept"},
      {{"--eval-share=0.2"}, "--eval-share needs --eval-every N"},
      {{"--eval-batches=2"}, "--eval-batches needs --eval-every N"},
      {{"--keep=2"}, "--keep needs --checkpoint FOLDER"},
      {{"--hash-every=2"}, "--hash-every needs --json FILE, which the checksums stand in"},
      {{"--cluster=f", "--ranks=4"}, "--cluster needs --estimate"},
      {{"--initial-states=f"}, "--initial-states needs --compile-only FILE"},
      {{"--prompt=a"}, "--prompt needs --sample N or --generate N"},
      {{"--no-kv-cache"}, "--no-kv-cache needs --sample N or --generate N"},
      {{"--top-k=3", "--temperature=0"}, "--temperature needs --sample N or --generate N"},
  };
  for (const auto &[arguments, message] : cases)
    EXPECT_EQ(usageError(arguments), message);
  EXPECT_EQ(parsed({"--sample=3", "--prompt=a", "--top-k=3"}).prompt, "a");
  EXPECT_EQ(parsed({"--eval-every=3", "--eval-batches=2"}).evalBatches, 2);
  EXPECT_EQ(usageError({"--compile-only=step.foo"}),
            "--compile-only step.foo: a library's name is expected, which ends in .so, .a or .o");
}

TEST(Options, helpBeginsWithExamples) {
  ParsedOptions help = parseTrainOptions({"--help"});
  EXPECT_EQ(help.exitStatus, 0);
  EXPECT_LT(help.message.find("examples:"), help.message.find("--layers"));
  for (const char *flag : {"--data", "--emit-graph", "--dump-grads", "-O", "-f", "--minutes"})
    expectContains(help.message, flag);
  ParsedOptions version = parseTrainOptions({"--version"});
  EXPECT_EQ(version.exitStatus, 0);
  expectContains(version.message, "train_gpt (tcc) ");
}

TEST(Options, unknownFlagsAreUsageErrors) {
  expectContains(usageError({"--widht", "3"}), "unknown option `--widht`, did you mean `--width`?");
  expectContains(usageError({"--bathc=3"}), "did you mean `--batch`?");
  expectContains(usageError({"--frobnicate"}), "unknown option `--frobnicate` (--help");
  expectContains(usageError({"-z"}), "unknown option `-z`");
  expectContains(usageError({"--steps=3", "book.txt"}), "unexpected argument `book.txt`");
}

TEST(Options, badValuesAreUsageErrors) {
  const Arguments bad[] = {{"--model", "huge"},   {"--batch", "0"},         {"--batch", "-1"},
                           {"--batch", "all"},    {"--batch", "1e999"},     {"--batch", "99999999999999999999"},
                           {"--steps", "x"},      {"--steps", "3.5"},       {"--lr", "-1"},
                           {"--lr", "nan"},       {"--lr", "inf"},          {"--lr", "1x"},
                           {"--minutes", "0"},    {"--minutes", "nan"},     {"--order", "backwards"},
                           {"--seed", "-1"},      {"--beta1", "1"},         {"--eval-share", "0"},
                           {"--top-p", "0"},      {"--top-p", "1.5"},       {"--keep", "0"},
                           {"--accumulate", "0"}, {"--weight-decay", "nan"}};
  for (const Arguments &arguments : bad) {
    std::string error = usageError(arguments);
    expectContains(error, arguments[0] + ": `" + arguments[1] + "` is given, ");
    expectContains(error, " is expected");
  }
  expectContains(usageError({"--batch", "0"}), "a whole number from 1 to");
  expectContains(usageError({"--remat=some"}), "unknown choice 'some' of --remat= (one of none auto block full)");
  expectContains(usageError({"--memory-limit=6Gb"}), "'6Gb' of -fmemory-limit= is no size such as 512MiB or 2GiB");
  expectContains(usageError({"-fmemory-limit=0"}), "is no size");
  expectContains(usageError({"--order=x"}), "one of random, sequential, shuffled is expected");
  expectContains(usageError({"-O4"}), "unknown optimisation level '-O4' (one of -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast)");
  EXPECT_EQ(usageError({"--layers"}), "--layers: a value is expected");
  expectContains(usageError({"--threads", "x"}), "'x' of --threads= is no number from 1 to 4096");
  EXPECT_EQ(parsed({"--dtype=f16"}).products, runtime::DType::f16);
  EXPECT_TRUE(parsed({"--dtype=auto"}).chooseProducts);
  EXPECT_FALSE(parsed({"--dtype=auto", "--dtype=bf16"}).chooseProducts);
  expectContains(usageError({"--dtype=f64"}), "unknown element type 'f64' of --dtype= (one of f32 tf32 bf16 f16 auto)");
  EXPECT_TRUE(parsed({"--dtype=tf32"}).tf32);
  EXPECT_EQ(parsed({"--dtype=tf32"}).products, runtime::DType::f32);
  EXPECT_EQ(parsed({"--dtype=tf32"}).productName(), "tf32");
  EXPECT_FALSE(parsed({"--dtype=tf32", "--dtype=f32"}).tf32);
  EXPECT_TRUE(parsed({}).capturesSteps);
  EXPECT_FALSE(parsed({"-fno-cuda-graph"}).capturesSteps);
  EXPECT_TRUE(parsed({"-fno-cuda-graph", "-fcuda-graph"}).capturesSteps);
  expectContains(usageError({"--thread=4"}), "did you mean `--threads`?");
  expectContains(usageError({"-fno-"}), "'-fno-' names no pass");
  expectContains(usageError({"--heads", "3"}), "width 128 is not a multiple of heads 3");
  expectContains(usageError({}, false), "--data FILE is needed");
}

} // namespace
} // namespace tcc::models
