// Expectations about texts, such as what a program has printed.
#pragma once
#include <gtest/gtest.h>
#include <string>

#define EXPECT_HAS(text, part)                                                                                         \
  EXPECT_NE((text).find(part), std::string::npos) << "expected: " << (part) << "\n" << (text)
#define EXPECT_LACKS(text, part)                                                                                       \
  EXPECT_EQ((text).find(part), std::string::npos) << "not expected: " << (part) << "\n" << (text)
