#include "fedgrab/core/communicator.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "fedgrab/core/interrupt.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::communicator_test {

/// Ranks that are threads of this process.
struct Shared {
  explicit Shared(int size) : bytes(static_cast<size_t>(size)), arrived(size) {}
  std::vector<std::string> bytes;
  std::barrier<> arrived;
};

class ThreadRank : public Communicator {
 public:
  ThreadRank(int rank, Shared& shared) : Communicator(rank, static_cast<int>(shared.bytes.size())), shared_(shared) {}
  std::vector<std::string> all_gather(const std::string& bytes) override {
    shared_.bytes[static_cast<size_t>(rank())] = bytes;
    shared_.arrived.arrive_and_wait();
    auto all = shared_.bytes;
    shared_.arrived.arrive_and_wait();  // all have read it before the next call
    return all;
  }

 private:
  Shared& shared_;
};

/// What a rank's collective call threw: the message, "interrupted" or empty, and the exit code.
struct Outcome {
  std::string message;
  int code = 0;
  bool failed = false;
};

std::vector<Outcome> run(const std::vector<std::function<void()>>& work) {
  Shared shared(static_cast<int>(work.size()));
  std::vector<Outcome> outcomes(work.size());
  std::vector<std::jthread> ranks;
  for (size_t rank = 0; rank < work.size(); ++rank)
    ranks.emplace_back([&, rank] {
      ThreadRank communicator(static_cast<int>(rank), shared);
      try {
        communicator.collective(work[rank]);
      } catch (const Interrupted&) {
        outcomes[rank].message = "interrupted";
      } catch (const Error& error) {
        outcomes[rank] = {error.what(), error.exit_code()};
      }
      outcomes[rank].failed = communicator.failed();
    });
  ranks.clear();  // joins
  return outcomes;
}

void nothing() {}

TEST(Communicator, OfOneProcessIsItself) {
  Communicator alone;
  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(alone.first());
  std::vector<int64_t> values{3, -4};
  alone.all_reduce(values);
  EXPECT_EQ(values, (std::vector<int64_t>{3, -4}));
  EXPECT_EQ(alone.all_gather("bytes"), std::vector<std::string>{"bytes"});
  expect_error(Fault::data, [&] { alone.collective([] { throw Error(Fault::data, "file", "is empty"); }); },
               {"file: is empty"});
  EXPECT_FALSE(alone.failed());
}

TEST(Communicator, DoesTheWorkOfAllRanks) {
  std::vector<int> done(3);
  for (const auto& [message, code, failed] : run({[&] { ++done[0]; }, [&] { ++done[1]; }, [&] { ++done[2]; }})) {
    EXPECT_EQ(message, "");
    EXPECT_FALSE(failed);
  }
  EXPECT_EQ(done, (std::vector<int>{1, 1, 1}));
}

TEST(Communicator, FailsOnAllRanksWithTheErrorOfTheLowest) {
  const auto outcomes = run({nothing, [] { throw Error(Fault::checkpoint, "a.safetensors", "is cut off"); },
                             [] { throw std::runtime_error("out of memory"); }});
  for (const auto& [message, code, failed] : outcomes) {
    EXPECT_EQ(message, "rank 1: a.safetensors: is cut off");
    EXPECT_EQ(code, 4);
    EXPECT_TRUE(failed);
  }
  for (const auto& [message, code, failed] : run({[] { throw std::runtime_error("out of memory"); }, nothing})) {
    EXPECT_EQ(message, "rank 0: out of memory");
    EXPECT_EQ(code, 1);
  }
}

TEST(Communicator, IsInterruptedOnAllRanksWhateverElseFailed) {
  const auto outcomes =
      run({[] { throw Error(Fault::data, "file", "is empty"); }, [] { throw Interrupted{}; }, nothing});
  for (const auto& outcome : outcomes) {
    EXPECT_EQ(outcome.message, "interrupted");
    EXPECT_TRUE(outcome.failed);
  }
}

}  // namespace fedgrab::communicator_test
