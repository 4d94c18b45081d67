// The chat template of a Hugging Face folder: conversations as the text that the model was tuned on.
#pragma once
#include "models/jinja.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// A part of a conversation's text, and whether a model learns to write it.
struct ChatPart {
  std::string text;
  bool learned = false;
  bool operator==(const ChatPart &) const = default;
};

class ChatTemplate {
public:
  /// The template in `folder`/chat_template.jinja, or in chat_template of its tokenizer_config.json (if that has
  /// several, the one named "default"); nothing if there is neither. Throws Error naming the file if it cannot be read
  /// or is no Jinja template.
  static std::optional<ChatTemplate> in(const std::string &folder);

  /// A template from its text; `where` names it in messages. `begin` and `end` are the texts of the tokens
  /// `bos_token` and `eos_token`. Blocks are trimmed as transformers trims them. Today's date is not known to a
  /// template, so that a conversation has the same text on every day. Throws Error.
  ChatTemplate(const std::string &text, std::string where, std::string begin, std::string end);

  /// The text of `messages`, a list of objects with `role` and `content`; with `asksForAnswer` it ends where an answer
  /// begins. Throws Error with what the template itself refuses.
  std::string render(const runtime::Json &messages, bool asksForAnswer) const;

  /// The same text without such an end, in parts. The answers (role `assistant`) are learned, up to and with the token
  /// that ends them. If the template writes earlier answers in another way than the last one, only the last one is
  /// learned, and `onlyLast` becomes true. Throws Error if there is no answer, or if the text of a conversation does
  /// not begin with that of its first messages.
  std::vector<ChatPart> parts(const runtime::Json &messages, bool &onlyLast) const;

  /// A checksum that differs for different templates.
  const std::string &fingerprint() const { return checksum; }

private:
  std::string where, checksum, begin, end;
  JinjaTemplate parsed;
};

} // namespace tcc::models
