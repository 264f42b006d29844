// updater.cc - open a file for reading and writing as std::fstream does, without making it;
// print it
#include <fstream>
#include <iostream>

int main(int argc, char **argv)
{
    std::fstream file(argc > 1 ? argv[1] : "", std::ios::in | std::ios::out);

    if (!file)
        return 1;
    std::cout << file.rdbuf();
    return 0;
}
