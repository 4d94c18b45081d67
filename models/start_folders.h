// What --init and --adapter name: a folder with weights, or a run's folder of checkpoints, whose newest one is meant.
#pragma once
#include "models/options.h"

#include <functional>
#include <string>
#include <string_view>

namespace tcc::models {

/// The folder whose weights a new run starts from. For a run's folder of checkpoints it is the newest checkpoint that
/// is intact; `report` is told of each damaged one after it. A checkpoint's own folder is checked as --resume checks
/// it. Other folders stay as they are. Throws Error for a checkpoint that is damaged, for a run without an intact one,
/// and for a folder without any weights. `flag` is "--init", or "--adapter", for messages and for what the folder must
/// hold.
std::string startFolder(const std::string &flag, const std::string &folder,
                        const std::function<void(std::string_view)> &report);

/// Puts the folders that are meant in the place of --init's and --adapter's, and says on stderr which ones, unless the
/// run is quiet. Throws Error as startFolder().
void findStartFolders(TrainOptions &options);

/// What a log calls the model of a folder: the folder's name; for a checkpoint the names of its run's folder and its
/// own.
std::string nameOfFolder(const std::string &folder);

} // namespace tcc::models
