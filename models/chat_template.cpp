#include "models/chat_template.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checksum.h"
#include "models/jinja.h"
#include "models/tokenizer_files.h"

#include <fmt/format.h>
#include <span>

namespace tcc::models {

namespace {

constexpr const char *templateName = "chat_template.jinja", *settingsName = "tokenizer_config.json";
constexpr int64_t templateLimit = int64_t(1) << 20;

/// The template in tokenizer_config.json: a string, or a list of {name, template}.
std::optional<std::string> templateOf(const runtime::Json &config, const std::string &path) {
  const auto found = config.find("chat_template");
  if (found == config.end() || found->is_null())
    return std::nullopt;
  if (found->is_string())
    return *found;
  if (found->is_array())
    for (const runtime::Json &each : *found)
      if (each.is_object() && each.value("name", runtime::Json()) == "default" &&
          each.value("template", runtime::Json()).is_string())
        return each["template"];
  throw Error(fmt::format("{}: chat_template is neither a text nor a list with one that is named default", path));
}

JinjaTemplate parse(const std::string &text, const std::string &where) {
  try {
    return JinjaTemplate(text);
  } catch (const Error &error) {
    throw Error(fmt::format("{}: {}", where, error.what()));
  }
}

} // namespace

std::optional<ChatTemplate> ChatTemplate::in(const std::string &folder) {
  const std::string own = inFolder(folder, templateName), configPath = inFolder(folder, settingsName);
  const runtime::Json config = tokenizerSettings(folder);
  std::optional<std::string> text;
  std::string where = own;
  if (fileExists(own)) {
    const MappedFile file(own);
    if (file.size() > templateLimit)
      throw Error(fmt::format("{}: {} bytes, a chat template has at most {}", own, file.size(), templateLimit));
    text = std::string(file.text());
  } else if ((text = templateOf(config, configPath))) {
    where = configPath + ": chat_template";
  }
  if (!text)
    return std::nullopt;
  return ChatTemplate(*text, where, namedToken(config, "bos_token"), namedToken(config, "eos_token"));
}

ChatTemplate::ChatTemplate(const std::string &text, std::string where, std::string begin, std::string end)
    : where(std::move(where)), begin(std::move(begin)), end(std::move(end)), parsed(parse(text, this->where)) {
  Checksum sum;
  for (const std::string &part : {text, this->begin, this->end}) {
    const uint64_t size = part.size();
    sum.add(std::as_bytes(std::span(&size, 1)));
    sum.add(std::as_bytes(std::span(part)));
  }
  checksum = sum.text();
}

std::string ChatTemplate::render(const runtime::Json &messages, bool asksForAnswer) const {
  try {
    return parsed.render(
        {{"messages", messages}, {"add_generation_prompt", asksForAnswer}, {"bos_token", begin}, {"eos_token", end}});
  } catch (const Error &error) {
    throw Error(fmt::format("{}: {}", where, error.what()));
  }
}

std::vector<ChatPart> ChatTemplate::parts(const runtime::Json &messages, bool &onlyLast) const {
  const auto isAnswer = [&](size_t i) { return messages[i]["role"] == "assistant"; };
  const auto firstMessages = [&](size_t count) {
    return runtime::Json(runtime::Json::array_t(messages.begin(), messages.begin() + std::ptrdiff_t(count)));
  };
  const std::string whole = render(messages, false);
  /// Where answer i begins and ends in the whole text; nothing where the template writes it, or what stands before it,
  /// in another way when more messages follow.
  const auto placeOf = [&](size_t i) -> std::optional<std::pair<size_t, size_t>> {
    const std::string before = render(firstMessages(i), true), after = render(firstMessages(i + 1), false);
    if (!whole.starts_with(before) || !whole.starts_with(after) || after.size() < before.size())
      return std::nullopt;
    const size_t last = after.find_last_not_of(" \t\r\n"); // what separates messages is not the answer's
    return std::pair(before.size(), std::max(before.size(), last == std::string::npos ? 0 : last + 1));
  };
  std::vector<std::pair<size_t, size_t>> places;
  size_t newest = messages.size();
  for (size_t i = 0; i < messages.size(); ++i)
    if (isAnswer(i))
      newest = i;
  if (newest == messages.size())
    throw Error("no message has the role assistant: there is nothing to learn");
  onlyLast = false;
  for (size_t i = 0; i < newest && !onlyLast; ++i)
    if (isAnswer(i)) {
      const auto place = placeOf(i);
      onlyLast = !place;
      if (place)
        places.push_back(*place);
    }
  if (onlyLast)
    places.clear();
  const auto last = placeOf(newest);
  if (!last)
    throw Error(fmt::format("{}: a conversation's text does not begin with the text of its first {} messages, so it "
                            "cannot be told what the answer is",
                            where, newest));
  places.push_back(*last);

  std::vector<ChatPart> made;
  size_t done = 0;
  const auto add = [&](size_t until, bool learned) {
    if (until > done)
      made.push_back({whole.substr(done, until - done), learned});
    done = std::max(done, until);
  };
  for (const auto &[answer, behind] : places) {
    add(answer, false);
    add(behind, true);
  }
  add(whole.size(), false);
  return made;
}

} // namespace tcc::models
