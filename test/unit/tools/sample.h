/*
 * sample.h - shards of a job of three ranks, of which the third is dead: "step 1" was
 * published by rank 0 and is kept by 0 and 1; a process of rank 1 waits for a file whose
 * name is no UTF-8 (upath_hex)
 */
#ifndef DYAD_TEST_SAMPLE_H
#define DYAD_TEST_SAMPLE_H

#define SAMPLE_BOOT "0f0e0d0c-1111-4222-8333-444455556666"

#define SAMPLE_HEAD(rank)                                                           \
    "{\"rank\":" #rank ",\"host\":\"n" #rank "/" SAMPLE_BOOT "\",\"pid\":100" #rank \
    ",\"incarnation\":0,\"depth\":2,\"bins\":256,\"replicas\":2,\"nranks\":3,"      \
    "\"session\":\"s\",\"entries_count\":1,\"tombstones\":0,\"occupied_bins\":1,"   \
    "\"tree_nodes\":2,\"deepest_chain\":1,\"waiters\":0,\"lookups\":10,"            \
    "\"comparisons\":5,\"false_matches\":0,\"bytes_served\":123456789012,"          \
    "\"bytes_fetched\":0,\"fetches\":0,\"published\":3,\"rejected_frames\":0,"      \
    "\"live_ranks\":2,\"uptime\":12.5,\"state\":\"running\""

#define SAMPLE_ENTRY                                                                   \
    "{\"upath\":\"step 1\",\"hash\":[\"00112233aabbccdd\",\"ffeeddccbbaa9988\"],"      \
    "\"bins\":[17,203],\"homes\":[0,1],\"owner\":0,\"type\":\"file\",\"size\":4096,"   \
    "\"mode\":33188,"                                                                  \
    "\"mtime\":1700000000.5,\"version\":{\"counter\":7,\"rank\":0,\"incarnation\":1}," \
    "\"state\":\"published\",\"holders\":[1,2],\"waiters\":[{\"rank\":2,\"since\":1.5}]}"

#define SAMPLE_WAIT                                                   \
    "{\"upath_hex\":\"64ff0a\",\"pid\":55,\"since\":3725,\"home\":1," \
    "\"reason\":\"not published\",\"timeout\":0}"

#define SAMPLE_KEY(entry)                                                                \
    "{\"upath\":\"step 1\",\"hash\":[\"00112233aabbccdd\",\"ffeeddccbbaa9988\"],"        \
    "\"bins\":[17,203],\"homes\":[0,2],\"entry\":" entry                                 \
    ",\"writers\":[{\"rank\":0,\"dead\":false},{\"rank\":3,\"dead\":true}]"              \
    ",\"files\":[{\"storage\":\"00aa\",\"size\":4096,\"superseded\":true,\"writer\":17," \
    "\"written\":{\"ranges\":3,\"bytes\":300},\"written_here\":{\"ranges\":1,\"bytes\":" \
    "100}}]"                                                                             \
    ",\"locks\":[{\"pid\":17,\"type\":\"write\",\"begin\":0,\"end\":8,\"append\":false," \
    "\"waits\":false},"                                                                  \
    "{\"pid\":18,\"type\":\"read\",\"begin\":4,\"end\":null,\"append\":false,\"waits\":" \
    "true,\"since\":3,\"asks\":1},"                                                      \
    "{\"pid\":19,\"type\":\"write\",\"begin\":9,\"end\":null,\"append\":true,\"waits\":" \
    "false}]"                                                                            \
    ",\"waiters\":[{\"rank\":2,\"since\":200}]}"

#define SAMPLE_WAIT_KEY                                        \
    "{\"upath\":\"step 1\",\"pid\":56,\"since\":4,\"home\":0," \
    "\"reason\":\"being written by pid 77\",\"timeout\":60}"

#define SAMPLE_SHARD_0 \
    SAMPLE_HEAD(0)     \
    ",\"entries\":[" SAMPLE_ENTRY "],\"waiting\":[],\"key\":" SAMPLE_KEY(SAMPLE_ENTRY) "}"
#define SAMPLE_SHARD_1                                                              \
    SAMPLE_HEAD(1)                                                                  \
    ",\"entries\":[" SAMPLE_ENTRY "],\"waiting\":[" SAMPLE_WAIT "," SAMPLE_WAIT_KEY \
    "],\"key\":" SAMPLE_KEY(SAMPLE_ENTRY) "}"

#endif
