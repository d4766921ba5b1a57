#include "tracking/trackers/http.h"

#include <curl/curl.h>

#include <array>
#include <utility>

#include "core/error.h"
#include "core/version.h"
#include "tracking/trackers/shared_library.h"

namespace trainctl::tracking {
namespace {

constexpr std::size_t kMaxBodyBytes = 64 << 20;

/// The functions of libcurl that we call.
struct CurlFunctions {
  decltype(curl_global_init)* global_init;
  decltype(curl_easy_init)* easy_init;
  decltype(curl_easy_cleanup)* easy_cleanup;
  decltype(curl_easy_reset)* easy_reset;
  decltype(curl_easy_setopt)* easy_setopt;
  decltype(curl_easy_perform)* easy_perform;
  decltype(curl_easy_getinfo)* easy_getinfo;
  decltype(curl_easy_strerror)* easy_strerror;
  decltype(curl_slist_append)* slist_append;
  decltype(curl_slist_free_all)* slist_free_all;
};

const CurlFunctions& curl_functions() {
  static const CurlFunctions functions = [] {
    const SharedLibrary library("libcurl.so.4", "libcurl4");
    CurlFunctions found{};
    library.find("curl_global_init", found.global_init);
    library.find("curl_easy_init", found.easy_init);
    library.find("curl_easy_cleanup", found.easy_cleanup);
    library.find("curl_easy_reset", found.easy_reset);
    library.find("curl_easy_setopt", found.easy_setopt);
    library.find("curl_easy_perform", found.easy_perform);
    library.find("curl_easy_getinfo", found.easy_getinfo);
    library.find("curl_easy_strerror", found.easy_strerror);
    library.find("curl_slist_append", found.slist_append);
    library.find("curl_slist_free_all", found.slist_free_all);
    found.global_init(CURL_GLOBAL_DEFAULT);
    return found;
  }();
  return functions;
}

std::size_t take_body(const char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxBodyBytes) return 0;  // libcurl ends the request
  text.append(bytes, size * count);
  return size * count;
}

}  // namespace

struct HttpClient::Session {
  const CurlFunctions& curl = curl_functions();
  CURL* handle = curl.easy_init();
  curl_slist* headers = nullptr;

  ~Session() {
    curl.slist_free_all(headers);
    curl.easy_cleanup(handle);
  }
};

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)), session_(std::make_unique<Session>()) {
  session_->headers = session_->curl.slist_append(nullptr, "Content-Type: application/json");
}

HttpClient::~HttpClient() = default;

HttpResponse HttpClient::send(const std::string& url, const std::string* body) {
  const auto& [curl, handle, headers] = *session_;
  HttpResponse response;
  std::array<char, CURL_ERROR_SIZE> reason{};
  const std::string agent = "trainctl/" + std::string(core::kVersion);
  curl.easy_reset(handle);
  curl.easy_setopt(handle, CURLOPT_URL, url.c_str());
  curl.easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl.easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_limit.count()));
  curl.easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(options_.limit.count()));
  curl.easy_setopt(handle, CURLOPT_USERAGENT, agent.c_str());
  curl.easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
  curl.easy_setopt(handle, CURLOPT_WRITEFUNCTION, &take_body);
  curl.easy_setopt(handle, CURLOPT_WRITEDATA, &response.body);
  curl.easy_setopt(handle, CURLOPT_ERRORBUFFER, reason.data());
  if (body != nullptr) {
    curl.easy_setopt(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
    curl.easy_setopt(handle, CURLOPT_POSTFIELDS, body->c_str());
  }
  if (!options_.bearer_token.empty()) {
    curl.easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl.easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, options_.bearer_token.c_str());
  } else if (!options_.user.empty()) {
    curl.easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl.easy_setopt(handle, CURLOPT_USERNAME, options_.user.c_str());
    curl.easy_setopt(handle, CURLOPT_PASSWORD, options_.password.c_str());
  }
  if (!options_.ca_file.empty()) curl.easy_setopt(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (!options_.verifies_certificate) {
    curl.easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    curl.easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  const CURLcode code = curl.easy_perform(handle);
  if (code != CURLE_OK)
    throw core::Error("cannot reach " + url.substr(0, url.find('?')) + ": " +
                      (reason[0] != '\0' ? reason.data() : curl.easy_strerror(code)));
  curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &response.status);
  return response;
}

HttpResponse HttpClient::get(const std::string& url) {
  return send(url, nullptr);
}

HttpResponse HttpClient::post_json(const std::string& url, const std::string& body) {
  return send(url, &body);
}

std::string percent_encoded(const std::string& text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kUnreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (kUnreserved.find(c) != std::string_view::npos)
      encoded += c;
    else
      (encoded += '%') += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return encoded;
}

}  // namespace trainctl::tracking
