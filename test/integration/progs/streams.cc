// streams.cc - a producer and a consumer that use C++ streams
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

static int produce(const std::string &dir, int count)
{
    for (int i = 0; i < count; i++) {
        std::ofstream out(dir + "/stream." + std::to_string(i));
        for (int line = 0; line < 1000 + i; line++)
            out << "file " << i << " line " << line << " value " << line * 0.25 << '\n';
        if (!out.flush())
            return 1;
    }
    return 0;
}

static int consume(const std::string &dir, int count)
{
    for (int i = 0; i < count; i++) {
        std::ifstream in(dir + "/stream." + std::to_string(i));
        std::string line;
        int lines = 0;
        while (std::getline(in, line)) {
            std::ostringstream expected;
            expected << "file " << i << " line " << lines << " value " << lines * 0.25;
            if (line != expected.str()) {
                std::cerr << "stream." << i << ": unexpected line: " << line << '\n';
                return 1;
            }
            lines++;
        }
        if (lines != 1000 + i) {
            std::cerr << "stream." << i << " has " << lines << " lines\n";
            return 1;
        }
    }
    std::cout << "consumed " << count << '\n';
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::cerr << "usage: streams produce|consume DIR COUNT\n";
        return 2;
    }
    return std::string(argv[1]) == "produce" ? produce(argv[2], std::stoi(argv[3]))
                                             : consume(argv[2], std::stoi(argv[3]));
}
