// dyad_streams.cc - a producer and a consumer that use the streams of dyad/stream.hpp
//
//   dyad_streams produce|consume DIR
//   dyad_streams bare|wait DIR        the same, by streams that join by themselves
//   dyad_streams alone DIR            no launcher: what cannot join says so
//
// Works with and without the wrapper.
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <type_traits>
#include <vector>

#include <dyad/stream.hpp>

static int failures;

#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            std::cerr << "line " << __LINE__ << ": " #what ": " << strerror(errno) \
                      << '\n';                                                     \
            failures++;                                                            \
        }                                                                          \
    } while (0)

using dyad::fstream_dyad;
using dyad::ifstream_dyad;
using dyad::ofstream_dyad;

static_assert(std::is_base_of<std::istream, ifstream_dyad>::value, "is a std::istream");
static_assert(std::is_base_of<std::ostream, ofstream_dyad>::value, "is a std::ostream");
static_assert(std::is_base_of<std::iostream, fstream_dyad>::value, "is a std::iostream");
static_assert(!std::is_copy_constructible<ofstream_dyad>::value, "not copied");
static_assert(std::is_nothrow_move_constructible<dyad::session>::value, "moved");
// All members compile.
template class dyad::basic_filebuf_dyad<char>;
template class dyad::basic_filebuf_dyad<wchar_t>;

static uint64_t version_of(const std::string &path)
{
    dyad_metadata metadata;

    return dyad_lookup(path.c_str(), &metadata) == DYAD_OK ? metadata.version : 0;
}

static std::vector<uint64_t> numbers()
{
    std::vector<uint64_t> all(50000);

    for (size_t i = 0; i < all.size(); i++)
        all[i] = i * 0x9e3779b97f4a7c15;
    return all;
}

static void write_text(std::ostream &out)
{
    for (int i = 0; i < 1000; i++)
        out << "line " << i << ' ' << i * 0.25 << '\n';
}

static void read_text(std::istream &in)
{
    std::string line;
    int lines = 0;

    while (std::getline(in, line)) {
        std::ostringstream expected;
        expected << "line " << lines << ' ' << lines * 0.25;
        CHECK(line == expected.str());
        lines++;
    }
    CHECK(lines == 1000 && in.eof());
}

static void produce(const std::string &dir)
{
    ofstream_dyad text(dir + "/text");
    CHECK(text.is_open() && version_of(dir + "/text") == 0);
    write_text(text);
    text.close();
    CHECK(text && !text.is_open());
    const uint64_t version = version_of(dir + "/text");
    CHECK(version != 0);
    text.close();  // of what is not open
    CHECK(text.fail() && version_of(dir + "/text") == version);

    const std::vector<uint64_t> all = numbers();
    ofstream_dyad moved;
    {
        ofstream_dyad binary((dir + "/binary").c_str(), std::ios::binary);
        binary.write(reinterpret_cast<const char *>(all.data()), 8);
        moved = std::move(binary);
    }
    CHECK(moved.is_open() && version_of(dir + "/binary") == 0);
    ofstream_dyad last(std::move(moved));
    last.write(reinterpret_cast<const char *>(all.data() + 1),
               static_cast<std::streamsize>((all.size() - 1) * 8));
    last.close();
    CHECK(last && version_of(dir + "/binary") != 0);

    ofstream_dyad a(dir + "/a"), b(dir + "/b");
    swap(a, b);
    a << "in b";
    b << "in a";
    a.close();
    CHECK(version_of(dir + "/b") != 0 && version_of(dir + "/a") == 0);
    b.close();
    {
        ofstream_dyad swept(dir + "/a", std::ios::app);  // its destructor publishes
        swept << ", and more";
    }
    // Read and written again, by seeks; then opened so and not written: that publishes nothing.
    {
        fstream_dyad both(dir + "/both", std::ios::in | std::ios::out | std::ios::trunc);
        std::string word;
        both << "0123456789";
        both.seekg(3);
        both >> word;
        CHECK(word == "3456789");
        both.clear();
        both.seekp(5);
        both << "x";
        both.close();
        CHECK(both);
        const uint64_t before = version_of(dir + "/both");
        both.open(dir + "/both");
        both >> word;
        CHECK(word == "01234x6789");
        both.close();
        CHECK(before && version_of(dir + "/both") == before);
    }
    dyad::wofstream_dyad wide(dir + "/wide");
    wide << L"wide " << 7;
    wide.close();
    CHECK(wide);

    // As std::ofstream: no directory is made, and exceptions are thrown.
    ofstream_dyad none;
    none.open(dir + "/missing/file");
    CHECK(none.fail() && errno == ENOENT && !none.is_open());
    none.clear();
    none.exceptions(std::ios::failbit);
    bool thrown = false;
    try {
        none.open(dir + "/missing/file");
    } catch (const std::ios_base::failure &) {
        thrown = true;
    }
    CHECK(thrown);
    // Removed before its close: nothing to publish, and no error.
    ofstream_dyad removed(dir + "/removed");
    removed << "nothing" << std::flush;
    CHECK(std::remove((dir + "/removed").c_str()) == 0);
    removed.close();
    CHECK(removed && version_of(dir + "/removed") == 0);
    // What cannot be written is not published, and said.
    ofstream_dyad full("/dev/full");
    full << "x";
    full.close();
    CHECK(full.fail());
    ofstream_dyad outside(dir + "/../outside");
    outside << "plain";
    outside.close();
    ifstream_dyad inside(dir + "/../outside");
    std::string word;
    CHECK(inside >> word && word == "plain");
    std::remove((dir + "/../outside").c_str());

    ofstream_dyad end(dir + "/end");
    end << "end";
}

static void consume(const std::string &dir)
{
    std::string word;
#ifdef DYAD_STREAM_HAS_PATH
    ifstream_dyad end(std::filesystem::path(dir) / "end");
#else
    ifstream_dyad end(dir + "/end");
#endif
    CHECK(end >> word && word == "end");  // which is the last that comes

    ifstream_dyad text(dir + "/text");
    CHECK(text);
    read_text(text);
    text.close();
    text.open(dir + "/text");
    CHECK(text.good());  // the state is clear again
    text.seekg(-100, std::ios::end);
    std::string rest((std::istreambuf_iterator<char>(text.get_stream())),
                     std::istreambuf_iterator<char>());
    CHECK(rest.size() == 100);

    std::vector<uint64_t> all(numbers().size() + 1);
    ifstream_dyad binary(dir + "/binary", std::ios::binary);
    binary.read(reinterpret_cast<char *>(all.data()),
                static_cast<std::streamsize>(all.size() * 8));
    CHECK(static_cast<size_t>(binary.gcount()) == (all.size() - 1) * 8);
    all.pop_back();
    CHECK(all == numbers());

    ifstream_dyad a(dir + "/a");
    ifstream_dyad taken(std::move(a));
    CHECK(std::getline(taken, word) && word == "in a, and more" && !a.is_open());
    dyad::wifstream_dyad wide(dir + "/wide");
    std::wstring words;
    CHECK(std::getline(wide, words) && words == L"wide 7");

    // The other node's file changed here, and appended to, is one more version each.
    const uint64_t first = version_of(dir + "/both");
    fstream_dyad both(dir + "/both");
    both.seekp(0);
    both << "y";
    both.close();
    const uint64_t second = version_of(dir + "/both");
    CHECK(both && second > first);
    both.open(dir + "/both", std::ios::in | std::ios::out | std::ios::app);
    both << "z";
    both.seekg(0);
    CHECK(both >> word && word == "y1234x6789z");
    both.close();
    CHECK(version_of(dir + "/both") > second);

    // Nobody writes these: the producer ends, or DYAD_TIMEOUT does.
    ifstream_dyad nobody(dir + "/nobody");
    CHECK(nobody.fail() && (errno == ETIMEDOUT || errno == ENOENT));
    fstream_dyad update(dir + "/nobody");
    CHECK(update.fail() && !update.is_open());
}

static void alone(const std::string &dir)
{
    std::error_code ec;
    dyad::session none(ec);
    CHECK(ec && !none && ec.category() == dyad::error_category());
    bool thrown = false;
    try {
        dyad::session throws;
    } catch (const dyad::error &error) {
        thrown = error.code() == std::errc::not_connected;
    }
    CHECK(thrown);
    errno = 0;
    ofstream_dyad out(dir + "/file");
    CHECK(out.fail() && errno == ENOTCONN);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const std::string role = argv[1], dir = argv[2];
    if (role == "alone") {
        alone(dir);
    } else if (role == "wait") {
        std::string word;
        ifstream_dyad in(dir + "/bare");
        CHECK(in >> word && word == "bare");
    } else if (role == "bare") {
        static ofstream_dyad out;  // closed at exit, before the session ends
        out.open(dir + "/bare");
        CHECK(out);
        out << "bare";
    } else {
        dyad::session first;
        dyad::session session(std::move(first));
        CHECK(session && !first);
        role == "produce" ? produce(dir) : consume(dir);
    }
    if (!failures)
        std::cout << role << " done\n";
    return failures != 0;
}
