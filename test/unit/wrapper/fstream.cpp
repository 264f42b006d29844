// Writes a file with std::ofstream, appends to it, reads it and a remote one back.
#include <fstream>
#include <iostream>
#include <string>

int main()
{
    std::string line;
    {
        std::ofstream out("f");
        out << "hello\n";
    }
    {
        std::ofstream out("f", std::ios::app | std::ios::binary);
        out << "world\n";
    }
    {
        std::fstream both("f", std::ios::in | std::ios::out);
        both << "J";
    }
    std::ifstream in("f");
    std::getline(in, line);
    std::cout << line << '\n';
    std::ifstream remote("r");
    std::getline(remote, line);
    std::cout << line << '\n';
    static std::ofstream until_exit("static");
    until_exit << "static";
    return 0;
}
