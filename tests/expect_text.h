// Expectations about texts, such as what a program has printed.
#pragma once
#include <gtest/gtest.h>
#include <string>

#define EXPECT_HAS(text, part)                                                                                         \
  EXPECT_NE((text).find(part), std::string::npos) << "expected: " << (part) << "\n" << (text)
#define EXPECT_LACKS(text, part)                                                                                       \
  EXPECT_EQ((text).find(part), std::string::npos) << "not expected: " << (part) << "\n" << (text)

/// How often the part stands in the text.
inline size_t countOf(const std::string &text, const std::string &part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}
