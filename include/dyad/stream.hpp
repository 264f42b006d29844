/*
 * stream.hpp - C++ streams over files of a workflow, and a session: header only, C++11 and later
 *
 *   dyad::session session;                        // joins; leaves at the end of its scope
 *   dyad::ofstream_dyad out("/tmp/ssd/result");   // as std::ofstream; its close publishes
 *   dyad::ifstream_dyad in("/tmp/ssd/input");     // as std::ifstream; its open waits and fetches
 *
 * The classes are std::istream, std::ostream and std::iostream, and have the members of
 * std::ifstream, std::ofstream and std::fstream with the same meaning. Works with and without
 * libdyad_wrapper.so in the process: a file that the wrapper's close has published is not
 * published again. Link with -ldyad (pkg-config: dyad).
 *
 * The modes, for a name below a managed directory:
 *
 *   in                      waits until the file is published, at most DYAD_TIMEOUT; fetches it
 *   in|out                  the same: it can only open what is there; the close publishes
 *   app, out|app, in|app    fetches the newest version if there is one, and waits for none
 *   out, trunc              fetches nothing
 *
 * Other names are opened and closed as by std::fstream.
 *
 * Errors: what fails sets failbit, which throws std::ios_base::failure if exceptions() says so,
 * and leaves a value in errno (ETIMEDOUT: not published in time; ENOENT: nobody is left who could
 * publish it; EHOSTUNREACH; ENOTCONN: the process could not join). A close that cannot publish
 * has closed the file all the same. Destructors swallow errors, as those of std do: who wants to
 * know calls close().
 *
 * Threads: several may use different streams, and sessions, at the same time; one stream, or one
 * session, by one thread at a time.
 */
#ifndef DYAD_STREAM_HPP
#define DYAD_STREAM_HPP

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <istream>
#include <mutex>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#if __cplusplus >= 201703L && defined(__has_include)
#if __has_include(<filesystem>)
#include <filesystem>
#define DYAD_STREAM_HAS_PATH 1
#endif
#endif

#include <dyad/dyad.h>

namespace dyad
{

namespace detail
{

/* The errno value that says the same as a code of dyad.h. */
inline int errno_of(dyad_rc_t rc) noexcept
{
    switch (rc) {
    case DYAD_OK:
        return 0;
    case DYAD_E_INVALID:
    case DYAD_E_NOT_MANAGED:
        return EINVAL;
    case DYAD_E_NOT_FOUND:
        return ENOENT;
    case DYAD_E_AGAIN:
        return EAGAIN;
    case DYAD_E_TIMEOUT:
        return ETIMEDOUT;
    case DYAD_E_UNREACHABLE:
        return EHOSTUNREACH;
    case DYAD_E_NOT_INIT:
    case DYAD_E_NO_SESSION:
        return ENOTCONN;
    case DYAD_E_NO_SPACE:
        return ENOSPC;
    case DYAD_E_NO_MEMORY:
        return ENOMEM;
    case DYAD_E_PERMISSION:
        return EACCES;
    case DYAD_E_BUSY:
        return EBUSY;
    default:
        return EIO;
    }
}

class category : public std::error_category
{
   public:
    const char *name() const noexcept override
    {
        return "dyad";
    }
    std::string message(int rc) const override
    {
        return dyad_strerror(rc);
    }
    std::error_condition default_error_condition(int rc) const noexcept override
    {
        return std::error_condition(errno_of(rc), std::generic_category());
    }
};

}  // namespace detail

/** The category of std::error_codes that hold a code of dyad.h (enum dyad_rc). They compare equal
 * to the std::errc that says the same: DYAD_E_TIMEOUT to std::errc::timed_out. */
inline const std::error_category &error_category() noexcept
{
    static const detail::category category;
    return category;
}

/** A call of dyad.h has failed: code().value() is what it returned. */
class error : public std::system_error
{
   public:
    error(dyad_rc_t rc, const char *what) : std::system_error(rc, error_category(), what)
    {
    }
};

/** A dyad_init() with its dyad_finalize(). A program may have several; the last one that ends
 * leaves the session, and blocks while dyad_finalize() does. Streams that are open are to be
 * closed before: a close after it cannot publish. Movable; one that was moved from holds nothing.
 *
 * A stream that is opened while there is none joins by itself, and the process leaves at exit. */
class session
{
   public:
    /** Join with the variables of the environment. Throws dyad::error. */
    session() : session(nullptr, "dyad_init")
    {
    }
    /** Join with parameters that go before the environment's; they are copied (begin with
     * DYAD_PARAMS_INIT). Throws dyad::error; DYAD_E_INVALID: the process has joined with
     * others. */
    explicit session(const dyad_params &params) : session(&params, "dyad_init_params")
    {
    }
    /** The same without exceptions: ec tells, and the session holds nothing if that is set. */
    explicit session(std::error_code &ec) noexcept
    {
        join(nullptr, ec);
    }
    session(const dyad_params &params, std::error_code &ec) noexcept
    {
        join(&params, ec);
    }
    session(session &&other) noexcept : joined_(other.joined_)
    {
        other.joined_ = false;
    }
    session &operator=(session &&other) noexcept
    {
        session moved(std::move(other));
        swap(moved);
        return *this;
    }
    session(const session &) = delete;
    session &operator=(const session &) = delete;
    ~session()
    {
        finalize();
    }
    /** Does it hold the process in the session? */
    explicit operator bool() const noexcept
    {
        return joined_;
    }
    /** End it now. DYAD_OK also if it holds nothing. */
    dyad_rc_t finalize() noexcept
    {
        const bool joined = joined_;

        joined_ = false;
        return joined ? dyad_finalize() : static_cast<dyad_rc_t>(DYAD_OK);
    }
    void swap(session &other) noexcept
    {
        std::swap(joined_, other.joined_);
    }

   private:
    session(const dyad_params *params, const char *what)
    {
        const dyad_rc_t rc = dyad_init_params(params);

        if (rc != DYAD_OK)
            throw error(rc, what);
        joined_ = true;
    }
    void join(const dyad_params *params, std::error_code &ec) noexcept
    {
        const dyad_rc_t rc = dyad_init_params(params);

        ec.assign(rc, error_category());
        joined_ = rc == DYAD_OK;
    }

    bool joined_ = false;
};

inline void swap(session &a, session &b) noexcept
{
    a.swap(b);
}

namespace detail
{

/* True if the environment manages a directory. */
inline bool manages() noexcept
{
    for (const char *name : {"DYAD_PATH", "DYAD_PATH_PRODUCER", "DYAD_PATH_CONSUMER"}) {
        const char *value = std::getenv(name);
        if (value && *value)
            return true;
    }
    return false;
}

/* The session of the streams of a process that has no other; it ends at exit. DYAD's streams join
 * by themselves, too. Each streambuf names it when it is made, so that it outlives those with
 * static storage. */
class stream_session
{
   public:
    static stream_session &get()
    {
        static stream_session own;
        return own;
    }
    stream_session(const stream_session &) = delete;
    stream_session &operator=(const stream_session &) = delete;
    dyad_rc_t join()
    {
        const std::lock_guard<std::mutex> guard(lock_);

        if (joined_)
            return DYAD_OK;
        if (!manages())
            return DYAD_E_NOT_MANAGED;
        const dyad_rc_t rc = dyad_init();
        joined_ = rc == DYAD_OK;
        return rc;
    }

   private:
    stream_session() = default;
    ~stream_session()
    {
        if (joined_)
            dyad_finalize();
    }

    std::mutex lock_;
    bool joined_ = false;
};

/* DYAD_E_NOT_MANAGED: the name is none of ours, or none is. DYAD_OK: it is, published or not. */
inline dyad_rc_t classify(const std::string &path)
{
    dyad_metadata metadata;
    dyad_rc_t rc = dyad_lookup(path.c_str(), &metadata);

    if (rc == DYAD_E_NOT_INIT) {
        if ((rc = stream_session::get().join()) != DYAD_OK)
            return rc;
        rc = dyad_lookup(path.c_str(), &metadata);
    }
    /* Who opens a file to write it does not wait for homes that cannot be reached; a fetch will
     * say what is wrong. */
    return rc == DYAD_E_NOT_MANAGED || rc == DYAD_E_NOT_INIT
               ? rc
               : static_cast<dyad_rc_t>(DYAD_OK);
}

/* Bring what an open with that mode is to find here. */
inline dyad_rc_t fetch(const std::string &path, std::ios_base::openmode mode)
{
    dyad_rc_t rc = DYAD_OK;

    if (mode & std::ios_base::app) {
        rc = dyad_consume_timeout(path.c_str(), 0);
        if (rc == DYAD_E_AGAIN || rc == DYAD_E_NOT_FOUND)
            rc = DYAD_OK;
    } else if ((mode & std::ios_base::in) && !(mode & std::ios_base::trunc)) {
        rc = dyad_consume(path.c_str());
    }
    /* It is below the producer's directory, and not below the consumer's. */
    return rc == DYAD_E_NOT_MANAGED ? static_cast<dyad_rc_t>(DYAD_OK) : rc;
}

/* As the name is opened: later changes of the working directory do not matter, and
 * DYAD_PATH_RELATIVE does not. Empty, with errno: there is no working directory. */
inline std::string absolute(const char *name)
{
    char *cwd;
    std::string path;

    if (*name == '/')
        return name;
    if (!*name) {
        errno = ENOENT;
        return path;
    }
    if ((cwd = ::getcwd(nullptr, 0))) {
        path = cwd;
        std::free(cwd);
        path += '/';
        path += name;
    }
    return path;
}

}  // namespace detail

/** A std::filebuf whose open() waits and fetches, and whose close() flushes, fsyncs and publishes,
 * as said above. Neither is virtual in std::filebuf: who closes it by a reference to that does not
 * publish. A stream of another kind may be made over it. */
template <typename CharT, typename Traits = std::char_traits<CharT>>
class basic_filebuf_dyad : public std::basic_filebuf<CharT, Traits>
{
    using base = std::basic_filebuf<CharT, Traits>;

   public:
    basic_filebuf_dyad()
    {
        detail::stream_session::get();
    }
    basic_filebuf_dyad(basic_filebuf_dyad &&other)
        : base(std::move(other)), path_(std::move(other.path_))
    {
        other.path_.clear();
    }
    basic_filebuf_dyad &operator=(basic_filebuf_dyad &&other)
    {
        if (this == &other)
            return *this;
        close();
        base::operator=(std::move(other));
        path_ = std::move(other.path_);
        other.path_.clear();
        return *this;
    }
    basic_filebuf_dyad(const basic_filebuf_dyad &) = delete;
    basic_filebuf_dyad &operator=(const basic_filebuf_dyad &) = delete;
    ~basic_filebuf_dyad() override
    {
        try {
            close();
        } catch (...) { /* as std::filebuf's */
        }
    }
    void swap(basic_filebuf_dyad &other)
    {
        base::swap(other);
        path_.swap(other.path_);
    }

    /** `this`, or nullptr and errno: it is open already, the file could not be had, or could not
     * be opened. */
    basic_filebuf_dyad *open(const char *name, std::ios_base::openmode mode)
    {
        if (this->is_open())
            return nullptr;
        std::string path = detail::absolute(name);
        if (path.empty())
            return nullptr;
        dyad_rc_t rc = detail::classify(path);
        const bool ours = rc == DYAD_OK;
        if (ours)
            rc = detail::fetch(path, mode);
        if (rc != DYAD_OK && rc != DYAD_E_NOT_MANAGED) {
            errno = detail::errno_of(rc);
            return nullptr;
        }
        if (!base::open(name, mode))
            return nullptr;
        if (ours && (mode & (std::ios_base::out | std::ios_base::app)))
            path_ = std::move(path);
        return this;
    }
    basic_filebuf_dyad *open(const std::string &name, std::ios_base::openmode mode)
    {
        return open(name.c_str(), mode);
    }

    /** `this`, or nullptr and errno: it is not open, or could not be flushed, synced, closed or
     * published. It is closed then, too. What could not be written is not published. A file that
     * has been removed meanwhile has no name to be published by, and one that another process of
     * this node has open for writing is published by the last close: neither is an error. */
    basic_filebuf_dyad *close()
    {
        const std::string path = std::move(path_);
        const int saved = errno;
        int error = 0;

        path_.clear();
        if (!this->is_open())
            return nullptr;
        errno = 0;
        if (!path.empty() && (this->pubsync() != 0 || sync_file(path) != 0))
            error = errno ? errno : EIO;
        /* With the wrapper in the process this publishes, and fails if that does. */
        if (!base::close() && !error)
            error = errno ? errno : EIO;
        if (!path.empty() && !error) {
            /* Does nothing if the close has published just this. */
            const dyad_rc_t rc = dyad_produce(path.c_str());
            if (rc != DYAD_OK && rc != DYAD_E_NOT_MANAGED && rc != DYAD_E_NOT_FOUND &&
                rc != DYAD_E_BUSY)
                error = detail::errno_of(rc);
        }
        errno = error ? error : saved;
        return error ? nullptr : this;
    }

   private:
    /* The standard has no way from a filebuf to its descriptor before C++26. libstdc++ has it in a
     * member that is protected, not private: this class may use it, and so is a std::filebuf in
     * everything else. Opening the file once more would do for fsync, but with the wrapper in the
     * process that open would wait for other writers. */
    int sync_file(const std::string &path)
    {
        int rc;
#if defined(__cpp_lib_fstream_native_handle)
        (void)path;
        rc = ::fsync(this->native_handle());
#elif defined(__GLIBCXX__)
        (void)path;
        rc = ::fsync(this->_M_file.fd());
#else
        /* By its directory, of which the wrapper knows nothing: all files of that storage. */
        const int fd = ::open(path.substr(0, path.rfind('/') + 1).c_str(),
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = fd < 0 ? -1 : ::syncfs(fd);
        const int error = errno;
        if (fd >= 0)
            ::close(fd);
        errno = error;
#endif
        return rc < 0 && (errno == EINVAL || errno == EROFS) ? 0
                                                             : rc; /* a FIFO, a device */
    }

    std::string path_; /* what close() publishes; empty: nothing */
};

template <typename CharT, typename Traits>
void swap(basic_filebuf_dyad<CharT, Traits> &a, basic_filebuf_dyad<CharT, Traits> &b)
{
    a.swap(b);
}

namespace detail
{

/* What the three streams share: Stream is the std:: class, Always is added to each mode. */
template <typename Stream, std::ios_base::openmode Default, std::ios_base::openmode Always>
class file_stream : public Stream
{
    using char_type_ = typename Stream::char_type;
    using traits_type_ = typename Stream::traits_type;
    using ios = std::basic_ios<char_type_, traits_type_>;

   public:
    using filebuf_type = basic_filebuf_dyad<char_type_, traits_type_>;

    file_stream() : Stream(nullptr)
    {
        ios::rdbuf(&buf_);
    }
    explicit file_stream(const char *name, std::ios_base::openmode mode = Default)
        : file_stream()
    {
        open(name, mode);
    }
    explicit file_stream(const std::string &name, std::ios_base::openmode mode = Default)
        : file_stream(name.c_str(), mode)
    {
    }
    file_stream(file_stream &&other) : Stream(std::move(other)), buf_(std::move(other.buf_))
    {
        this->set_rdbuf(&buf_);
    }
    /** Closes what is open, and publishes it; that this has failed is not told, as by std's. */
    file_stream &operator=(file_stream &&other)
    {
        Stream::operator=(std::move(other));
        buf_ = std::move(other.buf_);
        return *this;
    }
    void swap(file_stream &other)
    {
        Stream::swap(other);
        buf_.swap(other.buf_);
    }

    /** Wait, fetch and open. Sets failbit and errno if that fails, else clears the state. */
    void open(const char *name, std::ios_base::openmode mode = Default)
    {
        if (buf_.open(name, mode | Always))
            this->clear();
        else
            this->setstate(std::ios_base::failbit);
    }
    void open(const std::string &name, std::ios_base::openmode mode = Default)
    {
        open(name.c_str(), mode);
    }
#ifdef DYAD_STREAM_HAS_PATH
    explicit file_stream(const std::filesystem::path &name,
                         std::ios_base::openmode mode = Default)
        : file_stream(name.c_str(), mode)
    {
    }
    void open(const std::filesystem::path &name, std::ios_base::openmode mode = Default)
    {
        open(name.c_str(), mode);
    }
#endif
    bool is_open() const
    {
        return buf_.is_open();
    }
    /** Flush, fsync, close and publish. Sets failbit and errno if one of these fails; the file is
     * closed then, too. */
    void close()
    {
        if (!buf_.close())
            this->setstate(std::ios_base::failbit);
    }
    /** The stream's own buffer, whatever std::ios::rdbuf() was given. */
    filebuf_type *rdbuf() const
    {
        return const_cast<filebuf_type *>(&buf_);
    }
    /** The stream itself. DYAD's classes contain one that this returns. */
    Stream &get_stream()
    {
        return *this;
    }

   private:
    filebuf_type buf_;
};

template <typename Stream, std::ios_base::openmode Default, std::ios_base::openmode Always>
void swap(file_stream<Stream, Default, Always> &a, file_stream<Stream, Default, Always> &b)
{
    a.swap(b);
}

}  // namespace detail

/** As std::basic_ifstream, std::basic_ofstream and std::basic_fstream. */
template <typename CharT, typename Traits = std::char_traits<CharT>>
using basic_ifstream_dyad = detail::file_stream<std::basic_istream<CharT, Traits>,
                                                std::ios_base::in, std::ios_base::in>;
template <typename CharT, typename Traits = std::char_traits<CharT>>
using basic_ofstream_dyad = detail::file_stream<std::basic_ostream<CharT, Traits>,
                                                std::ios_base::out, std::ios_base::out>;
template <typename CharT, typename Traits = std::char_traits<CharT>>
using basic_fstream_dyad =
    detail::file_stream<std::basic_iostream<CharT, Traits>,
                        std::ios_base::in | std::ios_base::out, std::ios_base::openmode(0)>;

using filebuf_dyad = basic_filebuf_dyad<char>;
using ifstream_dyad = basic_ifstream_dyad<char>;
using ofstream_dyad = basic_ofstream_dyad<char>;
using fstream_dyad = basic_fstream_dyad<char>;
using wfilebuf_dyad = basic_filebuf_dyad<wchar_t>;
using wifstream_dyad = basic_ifstream_dyad<wchar_t>;
using wofstream_dyad = basic_ofstream_dyad<wchar_t>;
using wfstream_dyad = basic_fstream_dyad<wchar_t>;

}  // namespace dyad

#endif
